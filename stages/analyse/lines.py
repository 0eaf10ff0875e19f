"""Lines of curves: how many points a picture shows of them, and where they break."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stages.analyse.frames import usual_distance

LEAST, RUN_POINTS, MEAN_POINTS = 20, 100_000, 25_000
"""Least points of a line in a picture, and the most of all runs' and of all means' lines in all pictures together: a page holds them."""


def points_shown(curves: int, runs: int, conditions: int) -> tuple[int, int]:
    """Most points of a run's and of a mean's line in the pictures of a page with so many curves."""
    lines = (max(1, curves * runs), max(1, curves * conditions))
    return max(LEAST, RUN_POINTS // lines[0]), max(LEAST, MEAN_POINTS // lines[1])


def thinned(values: pd.Series, points: int) -> pd.Series:
    """At most N values: of each stretch the smallest and the largest, in order of steps."""
    if len(values) <= points:
        return values
    stretches, numbers = np.arange(len(values)) * (points // 2) // len(values), values.to_numpy()
    firsts = np.searchsorted(stretches, np.arange(points // 2))
    return values.iloc[np.unique([np.lexsort((sign * numbers, stretches))[firsts] for sign in (1, -1)])]


def line_parts(steps: pd.Index) -> NDArray[np.int64]:
    """Number of the part of a line that each step belongs to, from 0: a line breaks where its steps are further apart than usual."""
    gaps = np.diff(steps)
    breaks = gaps > max(usual_distance(steps), 2 * np.median(gaps)) if len(gaps) else []
    return np.concatenate([[0], np.cumsum(breaks)])[: len(steps)]
