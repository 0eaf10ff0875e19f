"""Batch means: the standard error of a mean over correlated rows, such as the steps of a training run.

Rows are cut into about sqrt(n) stretches of about equal length; their means are nearly independent where a stretch is longer than the
rows remember, and the spread of those means gives the error of the whole mean (Conway 1963; Law and Kelton, Simulation Modeling and
Analysis, section 9.5). It is too small for series that remember longer than a stretch; thresholds on it are set at four errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from stages.contracts.magnitude import deviation, mean

LEAST = 4
"""Fewer rows make no two batches of two, and no error is given."""


def batches(values: Sequence[float]) -> list[float]:
    """Means of about sqrt(n) consecutive stretches, at least two; [] of fewer than four rows."""
    n = len(values)
    if n < LEAST:
        return []
    many = max(2, math.isqrt(n))
    edges = [n * part // many for part in range(many + 1)]
    return [mean(values[start:end]) for start, end in pairwise(edges)]


class Level(NamedTuple):
    """A mean over rows with its standard error and the error's degrees of freedom."""

    mean: float
    error: float
    freedom: int


def level(values: Sequence[float]) -> Level | None:
    """Mean and standard error of correlated rows; None of fewer than four."""
    means = batches(values)
    if not means:
        return None
    return Level(mean(values), deviation(means) / math.sqrt(len(means)), len(means) - 1)
