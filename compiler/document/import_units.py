"""Units of imported numbers: by what a number in the log's unit is multiplied to be in octavo's."""

from __future__ import annotations

import math

_FACTORS: dict[str, dict[str, float]] = {
    "share": {"%": 0.01, "percent": 0.01},
    "s": {"ms": 0.001, "min": 60.0, "h": 3600.0},
    "nats per token": {"bits per token": math.log(2)},
}


def factor(unit: str, logged: str | None) -> float | None:
    """octavo's number = the log's x factor; None when the log's unit cannot be turned into octavo's."""
    if logged is None or logged == unit:
        return 1.0
    return _FACTORS.get(unit, {}).get(logged)
