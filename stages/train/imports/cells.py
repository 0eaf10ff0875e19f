"""A log's cell -> one of the states of history: a number, not finite, or null."""

from __future__ import annotations

import math
from typing import Any

_WORDS = {"nan", "inf", "-inf", "+inf", "infinity", "-infinity", "+infinity"}
"""What logs write as text for numbers that JSON lacks."""
_BARE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""As json_text.py gives them, many in a log."""
_NULL = {"null", "none", "n/a", ""}


LARGEST = 1e150
"""A number beyond it counts as not finite: its square would not be, and every spread and interval is made of squares."""


class NoNumber(Exception):
    """A cell that is no number; the message shows it."""


def number(cell: Any) -> float | None:
    """The cell as a number, NaN and Infinity among them; None when it was logged as "does not apply". Raises NoNumber."""
    if cell is None or type(cell) is float:
        return cell
    if isinstance(cell, (int, float)):  # true and false count as 1 and 0
        try:
            return float(cell)
        except OverflowError:  # more than 308 digits: what float() makes of the same number as text
            return math.inf if cell > 0 else -math.inf
    if isinstance(cell, str):
        if cell in _BARE:
            return _BARE[cell]
        word = cell.strip().lower()
        if word in _NULL:
            return None
        if word in _WORDS:
            return float(word)
        try:
            return float(word)
        except ValueError:
            pass
    raise NoNumber(repr(cell)[:60])


def scaled(found: float, factor: float) -> float | None:
    """The number in the unit of its metric; None when it is not finite, or beyond LARGEST."""
    value = found * factor
    return value if abs(value) <= LARGEST else None


def whole(cell: Any) -> int | None:
    """The cell as a step: a whole number from 0; None when there is none. Raises NoNumber."""
    found = number(cell)
    if found is None:
        return None
    if not math.isfinite(found) or found != int(found) or found < 0 or found >= 1 << 53:
        raise NoNumber(repr(cell)[:60])
    return int(found)
