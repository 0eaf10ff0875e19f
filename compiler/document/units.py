"""Numbers with units: `60s`, `5%`, `30GB`. A model's field names its unit with `json_schema_extra={"unit": "s" | "B" | "share"}`."""

from __future__ import annotations

import math
import re

FACTORS: dict[str, dict[str, float]] = {
    "s": {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400},
    "B": {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    "share": {"%": 0.01},
}
EXAMPLES = {"s": "`60s`, `500ms` or `2m`", "B": "`512MB` or `30GB`", "share": "`5%` or 0.05"}
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%]+)")


def number(text: str, unit: str) -> float | int | None:
    """`text` in `unit` (seconds, bytes, share of one), or None when it is no such text. Bytes are whole."""
    match = _TEXT.fullmatch(text.strip())
    factor = FACTORS[unit].get(match[2]) if match else None
    if match is None or factor is None or len(text) > 40:
        return None
    value = float(match[1]) * factor
    # decimal text times a factor such as 0.01 picks up a last-digit error: 5% is 0.05, not 0.05000000000000000277
    value = float(f"{value:.15g}")
    if not math.isfinite(value):
        return None
    return round(value) if unit == "B" else value


_IMPORTED: dict[str, dict[str, float]] = {
    "share": {"%": 0.01, "percent": 0.01},
    "s": {"ms": 0.001, "min": 60.0, "h": 3600.0},
    "nats per token": {"bits per token": math.log(2)},
}


def factor(unit: str, logged: str | None) -> float | None:
    """octavo's number = the log's x factor; None when the log's unit cannot be turned into octavo's."""
    if logged is None or logged == unit:
        return 1.0
    return _IMPORTED.get(unit, {}).get(logged)
