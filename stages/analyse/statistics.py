"""Intervals and power. The seed is the unit: `values` are one number a seed. All intervals come from scipy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import optimize, stats

POWER = 0.8
_MOST_SEEDS = 10_000


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval; low and high are None when none is defined, and `method` says why."""

    value: float
    low: float | None
    high: float | None
    n: int
    method: str


def mean(values: Sequence[float], level: float) -> Interval:
    """Mean over seeds with a t interval. Raises ValueError without values."""
    n = len(values)
    centre = math.fsum(values) / n
    if n == 1:
        return Interval(centre, None, None, n, "one seed: a value without an interval")
    error = float(stats.sem(values))
    if error == 0:
        return Interval(centre, centre, centre, n, "t interval over seeds (no spread between seeds)")
    low, high = stats.t.interval(level, n - 1, loc=centre, scale=error)
    return Interval(centre, float(low), float(high), n, "t interval over seeds")


def difference(treated: Sequence[float], against: Sequence[float], level: float) -> Interval:
    """Mean of `treated` minus mean of `against` with Welch's t interval; n is the smaller group. Raises ValueError without values."""
    n = min(len(treated), len(against))
    gap = math.fsum(treated) / len(treated) - math.fsum(against) / len(against)
    if n == 1:
        return Interval(gap, None, None, n, "one seed in a group: a value without an interval")
    if _variance(treated) == 0 and _variance(against) == 0:
        return Interval(gap, gap, gap, n, "Welch t interval over seeds (no spread between seeds)")
    with warnings.catch_warnings():  # one group without spread is nothing to warn about
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.ttest_ind(treated, against, equal_var=False).confidence_interval(level)
    return Interval(gap, float(found.low), float(found.high), n, "Welch t interval over seeds")


def proportion(k: int, n: int, level: float) -> Interval:
    """k of n with Wilson's interval. Raises ValueError for n = 0."""
    if n == 0:
        raise ValueError("a share of nothing")
    found = stats.binomtest(k, n).proportion_ci(level, method="wilson")
    return Interval(k / n, float(found.low), float(found.high), n, "Wilson interval over completions")


def _variance(values: Sequence[float]) -> float:
    return float(stats.tvar(values)) if len(set(values)) > 1 else 0.0


def _power(effect: float, error: float, freedom: float, level: float) -> float:
    """Chance that a two-sided t test at 1 - level finds a true difference of `effect`, in units of the metric."""
    bound = stats.t.ppf((1 + level) / 2, freedom)
    noncentral = stats.nct(freedom, effect / error)
    return float(noncentral.sf(bound) + noncentral.cdf(-bound))


def _spread(groups: Sequence[Sequence[float]], n: Sequence[int]) -> tuple[float, float]:
    """Standard error of a mean (one group) or difference (two), and Welch's degrees of freedom, with n[i] seeds in group i."""
    parts = [_variance(group) / size for group, size in zip(groups, n, strict=True)]
    total = math.fsum(parts)
    if total == 0:
        return 0.0, float(min(n) - 1)
    return math.sqrt(total), total**2 / math.fsum(part**2 / (size - 1) for part, size in zip(parts, n, strict=True))


def detectable(groups: Sequence[Sequence[float]], level: float) -> float | None:
    """Smallest true distance that these seeds would have shown with 80% power at the observed spread; None with a single seed."""
    sizes = [len(group) for group in groups]
    if min(sizes) < 2:
        return None
    error, freedom = _spread(groups, sizes)
    return _detectable(error, freedom, level)


def _detectable(error: float, freedom: float, level: float) -> float:
    if error == 0:
        return 0.0
    high = error * 8
    while _power(high, error, freedom, level) < POWER:
        high *= 2
    return float(optimize.brentq(lambda effect: _power(effect, error, freedom, level) - POWER, 0.0, high, xtol=error * 1e-6))


def seeds_needed(groups: Sequence[Sequence[float]], distance: float, level: float) -> int | None:
    """Seeds a group that show a true `distance` with 80% power at the observed spread; None: more than 10,000, or a single seed now."""
    if min(len(group) for group in groups) < 2 or distance == 0:
        return None

    def enough(n: int) -> bool:
        error, freedom = _spread(groups, [n] * len(groups))
        return error == 0 or _power(abs(distance), error, freedom, level) >= POWER

    low, high = 1, 2
    while not enough(high):
        low, high = high, high * 2
        if low >= _MOST_SEEDS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high if high <= _MOST_SEEDS else None
