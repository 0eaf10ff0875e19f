"""How numbers are printed: as many digits as the interval allows, a real minus sign, units, and changes that add up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

MINUS = "\u2212"
NONE = "\u2013"
_MOST = 4
_FINEST = 9
"""Most digits where four would show nothing of the largest number."""
_LARGE = 1e15
_COUNTS = {"count", "steps", "attempts", "runs"}
_RATE = "1"
"""Unit of numbers without a scale of their own: learning rates."""
_UNITS = {"s": "\u202fs", "tokens": " tokens", "nats per token": " nats per token"}


def fixed(value: float, decimals: int, *, signed: bool = False) -> str:
    """`-0.0016` with 2 decimals is `0.00`: a rounded zero has no sign. From 10^15 on a double has no fixed digits: `1.00 × 10³⁰`."""
    if abs(value) >= _LARGE:
        return ("+" if signed and value > 0 else "") + scientific(value, digits=2)
    rounded = _rounded(value, decimals)
    text = f"{abs(rounded):,.{decimals}f}".replace(",", "\u202f")
    if rounded == 0:
        return text
    return (MINUS if rounded < 0 else "+" if signed else "") + text


def rounded(value: float, decimals: int) -> float:
    """As it is printed."""
    return float(_rounded(value, decimals))


def _rounded(value: float, decimals: int) -> Decimal:
    exact = Decimal(repr(float(value)))
    return exact if abs(value) >= _LARGE else exact.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN)


def decimals_for(value: float | None, low: float | None = None, high: float | None = None) -> int:
    """Digits after the point: one significant digit of the interval's half width, or two of the value; at least two below ten."""
    sizes = [abs(x) for x in (value, low, high) if x is not None]
    size = max(sizes, default=0.0)
    least, most = 2 if size < 10 else 1 if size < 100 else 0, _cap(size, _MOST)
    if low is not None and high is not None and (half := high / 2 - low / 2) > 0:
        return max(least, min(most, -math.floor(math.log10(half))))
    if value and abs(value) < 1:
        return max(least, min(most, 1 - math.floor(math.log10(abs(value)))))
    return least


def _cap(largest: float, most: int) -> int:
    """Most digits of numbers whose largest is this: one more for each zero behind the point of it."""
    if 0 < largest < 10.0**-_MOST:
        return _FINEST
    return most + (max(0, -1 - math.floor(math.log10(largest))) if largest > 0 else 0)


def decimals_beside(margin: float, value: float, low: float, high: float, *, least: int | None = None) -> int:
    """`least`, or without it those of `decimals_for`; or as many more as it takes for every printed number to lie on its own side of the
    margin."""
    least = decimals_for(value, low, high) if least is None else least
    sides = {number: _side(number, margin) for number in (value, low, high)}
    return next((d for d in range(least, least + 13) if all(_side(x, margin, d) == side for x, side in sides.items())), least)


def _side(value: float, margin: float, decimals: int | None = None) -> int:
    shown = value if decimals is None else float(_rounded(value, decimals))
    return (shown > margin) - (shown < margin)


_Spread = tuple[float | None, float | None, float | None]


def column_decimals(cells: Iterable[float | _Spread | None], *, most: int = 3) -> int:
    """Digits for all numbers of a column, values or (value, low, high): those of the cell that needs most, but no more than `most`."""
    spreads = (cell if isinstance(cell, tuple) else (cell, None, None) for cell in cells)
    filled = [cell for cell in spreads if cell[0] is not None]
    largest = max((abs(x) for cell in filled for x in cell if x is not None), default=0.0)
    return min(_cap(largest, most), max((decimals_for(*cell) for cell in filled), default=2))


def number(value: float | None, unit: str = "", *, decimals: int | None = None, signed: bool = False) -> str:
    """A value without its unit; a dash when there is none."""
    if value is None:
        return NONE
    if unit in _COUNTS and float(value).is_integer():
        return fixed(value, 0, signed=signed)
    rough = decimals is None or decimals <= _MOST
    if unit == _RATE and rough and value and abs(value) < 10**-_MOST:  # of a learning rate no few digits show anything
        return ("+" if signed and value > 0 else "") + scientific(value, digits=2)
    if decimals is None and value and abs(value) < 10**-_MOST:
        return scientific(value)
    return fixed(value, decimals_for(value) if decimals is None else decimals, signed=signed)


def interval(value: float | None, low: float | None, high: float | None, *, decimals: int | None = None, signed: bool = False) -> str:
    """`0.88 [0.84, 0.92]`, or the value alone when it has no interval."""
    if value is None or low is None or high is None:
        return number(value, decimals=decimals, signed=signed)
    digits = decimals_for(value, low, high) if decimals is None else decimals
    return f"{fixed(value, digits, signed=signed)} [{fixed(low, digits, signed=signed)}, {fixed(high, digits, signed=signed)}]"


def scientific(value: float, *, digits: int = 1) -> str:
    """`1.6 × 10⁻⁶`."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa.replace('-', MINUS)} × 10{raised}"


def with_unit(text: str, unit: str) -> str:
    """The unit behind a printed number, where it says something: a share or a reward needs none."""
    return text + _UNITS.get(unit, "")


def setting(value: Any) -> str:
    """A setting exactly as a spec would hold it; nothing is rounded."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, float):
        return "0" if value == 0 else repr(value).replace("e-0", "e-").replace("e+0", "e+")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(setting(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {setting(item)}" for key, item in value.items()) + "}"
    return str(value)


def signed_setting(value: float) -> str:
    """A setting with a real minus sign."""
    return setting(value).replace("-", MINUS)


def percent(share: float) -> str:
    """`95%` of 0.95, `2.5%` of 0.025."""
    return f"{round(100 * share, 3):g}%"


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 run`, `3 runs`."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def counted(count: int) -> str:
    """`three`, and figures from thirteen on."""
    return _WORDS[count] if count < len(_WORDS) else str(count)


def listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1] if parts else ""


def duration(seconds: float) -> str:
    """`48 s`, `12 min`, `3.4 h`."""
    if seconds < 120:
        return f"{fixed(seconds, 0)} s"
    return f"{fixed(seconds / 60, 0)} min" if seconds < 7200 else f"{fixed(seconds / 3600, 1)} h"


def code_words(code: Mapping[str, object]) -> str:
    """`train.grpo 1, train.rewards.format 2`: versions of code."""
    return ", ".join(f"{unit} {version}" for unit, version in sorted(code.items()))
