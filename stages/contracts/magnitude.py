"""Sums and squares of finite numbers of any size: above 1e154 a square is infinite, below 1e-162 it is 0, and sums end at 1.8e308.

Numbers are divided by a power of two, which changes no digit of them, and results are multiplied by it again. Numbers of a usual size are
left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_USUAL = 1e-60, 1e60


def unit(sizes: Iterable[float]) -> float:
    """1 where the largest of the absolute values is of a usual size or 0, else the power of two just above it (at most 2^1023)."""
    most = max((abs(size) for size in sizes), default=0.0)
    return 1.0 if not most or _USUAL[0] <= most <= _USUAL[1] else math.ldexp(1.0, min(1023, math.frexp(most)[1]))


def mean(values: Sequence[float]) -> float:
    """Their mean with a correctly rounded sum. Raises ZeroDivisionError without values."""
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # the sum, not the mean
        one = unit(values)
        return math.fsum(value / one for value in values) / len(values) * one


def deviation(values: Sequence[float]) -> float:
    """Sample standard deviation of two values or more; exactly 0 where all are equal, infinite where it is above 1.8e308."""
    if len(set(values)) == 1:
        return 0.0  # not the dust of a rounded mean
    one = unit(values)
    parts = [value / one for value in values]
    centre = math.fsum(parts) / len(parts)
    return math.sqrt(math.fsum((part - centre) ** 2 for part in parts) / (len(parts) - 1)) * one
