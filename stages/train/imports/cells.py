"""A log's cell as a number: finite, not finite, or null; and what to write in place of one that is none."""

from __future__ import annotations

import math
import re
from typing import Any

LARGEST = 1e150
"""A number beyond it counts as not finite: its square would not be, and every spread and interval is made of squares."""
_NULL = {"null", "none", "n/a", ""}
_POINT = "write numbers with a point and without separators of thousands: it may be either"
_HINTS = (
    (re.compile(r"[-+]?[0-9.,]+ ?%"), "leave the sign away and say `unit: '%'`"),
    (re.compile(r"[-+]?[0-9]+,[0-9]+(?:[eE][-+]?[0-9]+)?"), _POINT),
    (re.compile(r"[-+]?[0-9]{1,3}(?:[,.' _][0-9]{3})+(?:[.,][0-9]*)?"), "write it without separators of thousands"),
    (re.compile(r"[-–—?.]+|na|missing|undefined|#[a-z0-9/]+[!?]?", re.I), "leave a cell empty where nothing was logged, or write null"),
    (re.compile(r"a list of [0-9]+"), "log one number a column"),
)


class NoNumber(Exception):
    """A cell that is no number; the message shows it."""


def number(cell: Any) -> float | None:
    """The cell as a number, inf for one that is not finite; None when it was logged as "does not apply". Raises NoNumber."""
    if cell is None:
        return None
    if isinstance(cell, str) and cell.strip().lower() in _NULL:
        return None
    try:
        value = float(cell)  # true and false count as 1 and 0; a text may be nan or infinity
    except OverflowError:  # an integer of more than 308 digits
        return math.inf if cell > 0 else -math.inf
    except (TypeError, ValueError):
        raise NoNumber(repr(cell)[:60]) from None
    return math.inf if math.isnan(value) else value


def scaled(value: float, factor: float) -> float | None:
    """The number in the unit of its metric; None when it is not finite, or beyond LARGEST."""
    product = value * factor
    return product if abs(product) <= LARGEST else None


def whole(cell: Any) -> int | None:
    """The cell as a step: a whole number from 0; None when there is none. Raises NoNumber."""
    value = number(cell)
    if value is None:
        return None
    if not math.isfinite(value) or value != int(value) or value < 0 or value >= 1 << 53:
        raise NoNumber(repr(cell)[:60])
    return int(value)


def hint(cell: Any) -> str:
    """What to write in place of a cell, as the end of a sentence; empty when there is no advice."""
    text = str(cell).strip()
    return next((f"; {fix}" for pattern, fix in _HINTS if pattern.fullmatch(text)), "")
