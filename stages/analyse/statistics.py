"""Intervals and power. The seed is the unit: values are one number a seed.

Seeds that do not differ give no t interval: where they are shares of completions, Wilson's interval with one completion a step is left.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from stages.contracts.history import Ends
from stages.contracts.wilson import wilson

POWER = 0.8
NO_SPREAD = "no spread between seeds: the interval would have no width"
"""Method of a mean or difference of equal seeds. Student's t is not defined at a sample deviation of 0."""
_MOST_SEEDS = 10_000
_BATCHES = 5
"""Most batches of a window: few long ones see drifts that many short ones miss."""
_STEEPEST = 100.0
"""Largest half width on a transformed scale: beyond it an interval says nothing more."""
_ROUNDING = 10 * float(np.finfo(float).eps)
"""A standard error this small beside the values is rounding, not spread (R's t.test refuses such data as essentially constant)."""


class Interval(NamedTuple):
    """An estimate with its interval. `low` and `high` are None when none is defined, and `method` says why."""

    value: float
    low: float | None
    high: float | None
    n: int
    method: str
    equal: bool = False
    """The seeds do not differ, so their spread gives no interval."""
    detectable: float | None = None
    """Smallest true distance that would have shown with 80% power."""


class Share(NamedTuple):
    """A share of completions, and how many independent completions it is worth."""

    value: float
    worth: float
    text: str
    """What was counted, such as `12 of 60 completions`."""


def estimate(groups: Sequence[Sequence[float]], level: float, scale: float = 0.0, bounds: Ends = (None, None)) -> Interval:
    """The mean of one group with a t interval, or the mean of the first minus that of the second with Welch's; none where seeds do not
    differ but for rounding. n is the smaller group. `scale`: size of the largest number that the values were computed from, where that is
    not they (a change of 0 is 0.7 - 0.7). `bounds`: what the estimate lies between by definition."""
    means, n = [float(np.mean(group)) for group in groups], min(map(len, groups))
    centre = means[0] - sum(means[1:])
    if n == 1:
        return Interval(centre, None, None, n, f"one seed{' in a group' if len(groups) > 1 else ''}: a value without an interval")
    method = "Welch t interval over seeds" if len(groups) > 1 else "t interval over seeds"
    return _inside(_around(centre, *_welch(groups), n, level, method, max(scale, *map(abs, means))), bounds)


def _inside(interval: Interval, bounds: Ends) -> Interval:
    """The interval on the logit scale of its bounds, or with one bound on the log scale, by the delta method: its ends lie inside. Cutting
    it there instead would claim a precision that few seeds do not have."""
    least, most, value = *bounds, interval.value
    if interval.low is None or least is None or value <= least or (most is not None and value >= most):
        return interval
    half, above = value - interval.low, value - least
    factor = math.exp(min(_STEEPEST, half / above if most is None else half * (most - least) / (above * (most - value))))
    if most is None:
        low, high, scale = least + above / factor, least + above * factor, "log"
    else:
        odds = above / (most - value)
        low, high = (least + (most - least) * side / (1 + side) for side in (odds / factor, odds * factor))
        scale = "logit"
    return interval._replace(low=low, high=high, method=f"{interval.method}, on the {scale} scale")


def batches(values: Any, most: int | None = None) -> list[float]:
    """Means of about sqrt(n) consecutive stretches, at least two and at most `most`; [] of fewer than four rows (Conway 1963)."""
    n = len(values)
    if n < 4:
        return []
    rows, parts = np.asarray(values, dtype=float), max(2, min(math.isqrt(n), most or n))
    return [float(rows[start:end].mean()) for start, end in pairwise(n * part // parts for part in range(parts + 1))]


def batch_means(values: Any) -> tuple[float, float] | None:
    """Mean and standard error of correlated rows; None of fewer than four. The error is too small for series that remember longer than a
    stretch; thresholds on it are set at four errors."""
    means = batches(values)
    return (float(np.mean(np.asarray(values))), _deviation(means) / math.sqrt(len(means))) if means else None


def trend(before: Any, after: Any, level: float) -> Interval:
    """Mean of the last window minus mean of the first, rows of one run: Welch's t interval over batch means."""
    change, n = float(np.mean(after) - np.mean(before)), min(len(before), len(after))
    groups = [batches(after, _BATCHES), batches(before, _BATCHES)]
    if not all(groups):
        return Interval(change, None, None, n, "one run; a window of fewer than four logged steps has no error of its own")
    error, freedom = _welch(groups)
    largest = float(np.abs([*groups[0], *groups[1]]).max())
    interval = _around(change, error, freedom, n, level, "t interval over batch means of one run's steps", largest)
    if interval.equal:
        return interval._replace(method="one run; no spread between steps: the interval would have no width", equal=False)
    return interval._replace(detectable=_detectable(error, freedom, level))


def proportion(k: int, n: int, level: float) -> Interval:
    """k of n with Wilson's interval."""
    return Interval(k / n, *wilson(k, n, level), n, "Wilson interval over completions")


def completions_interval(interval: Interval, plus: Sequence[Share], minus: Sequence[Share], level: float) -> Interval:
    """The interval of a share, or of a sum of shares minus others, whose seeds are equal: Wilson's over what the completions are worth. Of
    a difference Newcombe's (1998, his method 10), of more than two shares as Zou and Donner (2008) have it."""
    below = above = 0.0
    for share, sign in (*((share, 1) for share in plus), *((share, -1) for share in minus)):
        low, high = wilson(share.value * share.worth, share.worth, level)
        ends = (share.value - low, high - share.value)[::sign]
        below, above = math.hypot(below, ends[0]), math.hypot(above, ends[1])
    name = "Wilson" if len(plus) + len(minus) == 1 else "Newcombe"
    counts, worth = (" and ".join(texts) for texts in zip(*((share.text, f"{share.worth:,.0f}") for share in (*plus, *minus)), strict=True))
    method = f"seeds are equal; {name} interval from {counts}, counted as {worth} independent ones"
    return interval._replace(low=interval.value - below, high=interval.value + above, method=method)


def detectable(groups: Sequence[Sequence[float]], level: float) -> float | None:
    """Smallest true distance that these seeds would have shown with 80% power at the observed spread; None with a single seed or without
    spread."""
    return _detectable(*_welch(groups), level) if min(map(len, groups)) > 1 else None


def seeds_needed(groups: Sequence[Sequence[float]], distance: float, level: float) -> int | None:
    """Seeds a group that show a true `distance` with 80% power at the observed spread; None: more than 10,000, or a single seed now."""
    if min(map(len, groups)) < 2 or distance == 0:
        return None

    def enough(seeds: int) -> bool:
        return (_detectable(*_welch(groups, seeds), level) or 0.0) <= abs(distance)

    return bisect_left(range(_MOST_SEEDS + 1), True, lo=2, key=enough) if enough(_MOST_SEEDS) else None


def _around(centre: float, error: float, freedom: float, n: int, level: float, method: str, scale: float) -> Interval:
    """`scale`: the largest number whose rounding may be taken for spread."""
    if error <= _ROUNDING * scale:
        return Interval(centre, None, None, n, NO_SPREAD, equal=True)
    half = error * _quantile(freedom, level)
    return Interval(centre, centre - half, centre + half, n, method)


def _quantile(freedom: float, level: float) -> float:
    """Two-sided quantile of Student's t."""
    from scipy import special  # 0.3 s that screen does not need

    return float(special.stdtrit(freedom, (1 + level) / 2))


def _welch(groups: Sequence[Sequence[float]], size: int | None = None) -> tuple[float, float]:
    """Standard error of a mean (one group) or difference (two), and Welch's degrees of freedom. `size`: as if each group had as many."""
    sizes = [size or len(group) for group in groups]
    parts = [_deviation(group) / math.sqrt(n) for group, n in zip(groups, sizes, strict=True)]
    error = math.hypot(*parts)
    if error == 0:
        return 0.0, min(sizes) - 1
    return error, 1 / sum((part / error) ** 4 / (n - 1) for part, n in zip(parts, sizes, strict=True))


def _deviation(values: Sequence[float]) -> float:
    """Sample standard deviation; exactly 0 where all values are equal, not the dust of a rounded mean."""
    return float(np.std(values, ddof=1)) if np.ptp(values) else 0.0


def _detectable(error: float, freedom: float, level: float) -> float | None:
    """The noncentrality, in standard errors, at which a two-sided t test at 1 - level finds the distance with 80% power."""
    from scipy import special

    return error * float(special.nctdtrinc(freedom, 1 - POWER, _quantile(freedom, level))) or None
