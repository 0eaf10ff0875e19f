"""What correlated rows are worth: the steps of one run resemble their neighbours, so their mean is less certain than that of as many
independent rows.

Rows are taken as a first-order autoregression. How strongly neighbours correlate is estimated on the whole run, because a window of a
tenth is too short to show it, after a straight line is taken out of each stretch of about sixty rows: learning is no noise. The estimate
is corrected for its bias (Marriott and Pope 1954), and one standard error is added, because an estimate that is too low makes intervals
too narrow. A slow drift below much faster noise is no such autoregression: it shows in how the means of whole windows scatter about their
neighbours. `benchmarks/false_alarms.py` says how often the intervals hold the truth. A drift that is slower than a window is seen as a
movement of the run, which it is.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.contracts.magnitude import unit

LEAST_ROWS = 12
"""Fewer rows of a run do not show how they correlate."""
LEAST_WORTH = 2.0
"""A window that is worth fewer independent rows has no interval: what such windows would say of their error is mostly chance."""
LEAST_WINDOWS = 6
_STRETCH, _MOST_STRETCHES = 60, 10
_MOST = 0.999


def neighbours(values: NDArray[np.float64]) -> float | None:
    """Upper estimate of the correlation of neighbouring rows, 0 to 0.999, to three digits; None of fewer than twelve rows."""
    n = len(values)
    if n < LEAST_ROWS:
        return None
    many = min(_MOST_STRETCHES, max(1, n // _STRETCH))
    values = values / unit((float(values.min()), float(values.max())))
    rest = _without_lines(values, many)
    products = rest[1:] * rest[:-1]
    products[_lines(n, many).starts[1:] - 1] = 0.0  # neighbours of two stretches
    shared, whole = float(products.sum()), float((rest * rest).sum())
    if whole <= 1e-24 * float((values * values).sum()):  # a constant or a line, but for rounding
        return 0.0
    length = n / many
    found = min(_MOST, max(0.0, (shared / whole + 2 / length) / (1 - 4 / length)))
    return round(min(_MOST, found + math.sqrt((1 - found**2) / n)), 3)


class _Lines(NamedTuple):
    """n rows cut into stretches: their first rows, their sizes, and each row's place from the middle of its stretch."""

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    at: NDArray[np.float64]
    squares: NDArray[np.float64]
    """Sum of at^2 of each stretch."""


@lru_cache(maxsize=16)  # a run's metrics mostly have as many rows
def _lines(n: int, many: int) -> _Lines:
    starts = np.arange(many) * n // many
    sizes = np.diff(starts, append=n)
    at: NDArray[np.float64] = np.arange(n, dtype=np.float64) - np.repeat(starts + (sizes - 1) / 2, sizes)
    return _Lines(starts, sizes, at, np.add.reduceat(at * at, starts))


def _without_lines(values: NDArray[np.float64], many: int) -> NDArray[np.float64]:
    """The values less the straight line through each of so many stretches."""
    starts, sizes, at, squares = _lines(len(values), many)
    rest: NDArray[np.float64] = values - np.repeat(np.add.reduceat(values, starts) / sizes, sizes)
    rest -= at * np.repeat(np.add.reduceat(at * rest, starts) / squares, sizes)
    return rest


class Wander(NamedTuple):
    """How far means of windows scatter about their neighbours."""

    error: float
    """Standard error of one window's mean."""
    freedom: float
    windows: int


def wander(values: NDArray[np.float64], n: int) -> Wander | None:
    """From the second differences of the means of consecutive windows of n rows: a line through three windows is taken for learning, what
    is left for chance (Gasser, Sroka and Jennen-Steinmetz 1986). It sees drifts that are slower than neighbouring rows show. None of
    fewer than six windows."""
    many = len(values) // n if n else 0
    if many < LEAST_WINDOWS:
        return None
    one = unit((float(values.min()), float(values.max())))
    means = (values[: many * n] / one).reshape(many, n).mean(axis=1)
    bends = means[:-2] - 2 * means[1:-1] + means[2:]
    k = len(bends)
    # of independent means the bends have variance 6 and correlate by -4 and 1: trace(M)^2 / trace(M^2) degrees of freedom
    return Wander(math.sqrt(float((bends * bends).sum()) / (6 * k)) * one, (6 * k) ** 2 / (70 * k - 36), many)


def worth(n: int, correlation: float) -> float:
    """Independent rows whose mean would be as certain as that of n rows: n / (1 + 2 sum (1 - k/n) r^k) (Bayley and Hammersley 1946)."""
    r = correlation
    # the sum in closed form: sum_{k=1}^{n-1} (1 - k/n) r^k
    tail = r / (1 - r) - r * (1 - r**n) / (n * (1 - r) ** 2)
    return n / (1 + 2 * tail)


def error(deviation: float, n: int, correlation: float) -> tuple[float, float]:
    """(standard error of the mean, its degrees of freedom) of n rows with this sample deviation. The sample variance of
    correlated rows is too small, by (n - n/w) / (n - 1) for rows that are worth w; their squares correlate by r^2."""
    rows = worth(n, correlation)
    return deviation * math.sqrt((n - 1) / (n - n / rows) / rows), max(1.0, n * (1 - correlation**2) / (1 + correlation**2) - 1)
