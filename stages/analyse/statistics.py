"""Intervals and power. The seed is the unit: `values` are one number a seed.

Quantiles come from scipy.special, because importing scipy.stats takes longer than everything else this stage does (0.45 s). The
formulas on top are the textbook's; tests hold each of them against scipy.stats on many inputs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy import special

from stages.analyse.correlated import LEAST_ROWS, LEAST_WORTH, Wander, worth
from stages.analyse.correlated import error as autocorrelated
from stages.analyse.counted import Count
from stages.analyse.traces import Rows
from stages.contracts.magnitude import deviation
from stages.contracts.magnitude import mean as exact_mean
from stages.contracts.wilson import wilson

POWER = 0.8
NO_SPREAD = "no spread between seeds: the interval would have no width"
"""Method of a mean or difference of equal seeds. Student's t is not defined at a sample deviation of 0; equal values of few seeds show
that the spread is below what they resolve, not that there is none."""
_MOST_SEEDS = 10_000
_BATCHES = 4
"""Of fewer batches the spread is mostly chance."""
_CONSTANT = 10 * sys.float_info.epsilon
"""A standard error of so small a share of the mean is rounding, not spread (R's t.test refuses such data as essentially constant)."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval; low and high are None when none is defined, and `method` says why."""

    value: float
    low: float | None
    high: float | None
    n: int
    method: str
    detectable: float | None = None
    """Smallest true distance that would have shown, where the interval's maker knows it."""
    equal: bool = False
    """The seeds do not differ, so their spread gives no interval."""


def mean(values: Sequence[float], level: float, scale: float = 0.0) -> Interval:
    """Mean over seeds with a t interval, none where the seeds do not differ but for rounding. `scale`: size of the largest number that
    the values were computed from, where that is not they (a change of 0 is 0.7 - 0.7). Raises ValueError without values."""
    if not values:
        raise ValueError("a mean of nothing")
    n = len(values)
    centre = exact_mean(values)
    if n == 1:
        return Interval(centre, None, None, n, "one seed: a value without an interval")
    return _around(centre, *_spread([values], [n]), n, level, "t interval over seeds", scale=max(abs(centre), scale))


def difference(treated: Sequence[float], against: Sequence[float], level: float, scale: float = 0.0) -> Interval:
    """Mean of `treated` minus mean of `against` with Welch's t interval, none where no group's seeds differ; n is the smaller group.
    `scale` as for `mean`. Raises ValueError without values."""
    if not treated or not against:
        raise ValueError("a difference to nothing")
    sizes = [len(treated), len(against)]
    means = exact_mean(treated), exact_mean(against)
    gap = means[0] - means[1]
    if min(sizes) == 1:
        return Interval(gap, None, None, 1, "one seed in a group: a value without an interval")
    largest = max(scale, *(abs(one) for one in means))
    return _around(gap, *_spread([treated, against], sizes), min(sizes), level, "Welch t interval over seeds", scale=largest)


def trend(before: Rows, after: Rows, correlation: float | None, level: float, scatter: Wander | None = None) -> Interval:
    """Mean of the last window minus mean of the first, rows of one run whose neighbours correlate by at most `correlation`.

    Welch's t interval with what the rows are worth (see correlated.py), or a wider one of those that see what is correlated over more than
    neighbours: over batch means where a window has four batches, and from how the run's windows scatter about their neighbours. No
    interval for windows that are worth too little, or whose steps do not differ.
    """
    change, n = after.exact - before.exact, min(before.n, after.n)
    if not before.batches or not after.batches:
        return Interval(change, None, None, n, "one run; a window of fewer than four logged steps has no error of its own")
    if correlation is None:
        return Interval(change, None, None, n, f"one run; fewer than {LEAST_ROWS} logged steps do not show how they are correlated")
    value = min(worth(rows.n, correlation) for rows in (before, after))
    known = f"neighbours correlate by up to {correlation:.2f}, so {n} steps count as {value:.1f}"
    if math.hypot(before.deviation, after.deviation) <= _CONSTANT * max(abs(before.exact), abs(after.exact)):
        return Interval(change, None, None, n, "one run; no spread between steps: the interval would have no width")
    if value < LEAST_WORTH:
        return Interval(change, None, None, n, f"one run; too strongly correlated for an interval: {known}")
    error, freedom = _welch([autocorrelated(rows.deviation, rows.n, correlation) for rows in (before, after)])
    method = f"t interval over one run's steps: {known}"
    groups = [after.batches, before.batches]
    if min(len(group) for group in groups) >= _BATCHES:
        wide, few = _spread(groups, [len(group) for group in groups])
        if wide * _quantile(few, level) > error * _quantile(freedom, level):
            error, freedom, method = wide, few, "t interval over batch means of one run's steps"
    if scatter is not None and math.sqrt(2) * scatter.error * _quantile(scatter.freedom, level) > error * _quantile(freedom, level):
        error, freedom = math.sqrt(2) * scatter.error, scatter.freedom
        method = f"t interval over one run: how its {scatter.windows} windows scatter about their neighbours"
    found = _around(change, error, freedom, n, level, method)
    smallest = _detectable(error, freedom, level)
    return replace(found, detectable=smallest if math.isfinite(smallest) else None)


def proportion(k: int, n: int, level: float) -> Interval:
    """k of n with Wilson's interval. Raises ValueError for n = 0."""
    if n == 0:
        raise ValueError("a share of nothing")
    low, high = wilson(k, n, level)
    return Interval(k / n, low, high, n, "Wilson interval over completions")


def of_completions(plus: Sequence[Count], minus: Sequence[Count], level: float) -> Interval:
    """A share, or a sum of shares minus others, where seeds do not differ at all: their spread says nothing, the completions' own error
    remains. Wilson's interval over what they are worth; of a difference Newcombe's (1998, his method 10), for more than two shares as
    Zou and Donner (2008) have it. n: what the share that is worth least is worth, rounded."""
    below = above = 0.0
    for counts, sign in ((plus, 1), (minus, -1)):
        for count in counts:
            low, high = wilson(count.share * count.worth, count.worth, level)
            ends = count.share - low, high - count.share
            below, above = math.hypot(below, ends[sign < 0]), math.hypot(above, ends[sign > 0])
    value = math.fsum([*(count.share for count in plus), *(-count.share for count in minus)])
    every = (*plus, *minus)
    name = "Wilson" if len(every) == 1 else "Newcombe"
    of = " and ".join(f"{count.k:,} of {count.n:,} {count.what}" for count in every)
    worth = " and ".join(f"{count.worth:,.0f}" for count in every)
    method = f"seeds are equal; {name} interval from {of}, counted as {worth} independent ones"
    return Interval(value, value - below, value + above, round(min(count.worth for count in every)), method, equal=True)


def _around(centre: float, error: float, freedom: float, n: int, level: float, method: str, scale: float = 0.0) -> Interval:
    """`scale`: the largest number whose rounding may be taken for spread."""
    if error <= _CONSTANT * scale:
        return Interval(centre, None, None, n, NO_SPREAD, equal=True)
    half = error * _quantile(freedom, level)
    if not math.isfinite(centre - half) or not math.isfinite(centre + half):
        return Interval(centre, None, None, n, "the interval's ends are larger than any number that a computer holds")
    return Interval(centre, centre - half, centre + half, n, method)


def _quantile(freedom: float, level: float) -> float:
    """Two-sided quantile of Student's t."""
    return float(special.stdtrit(freedom, (1 + level) / 2))


def _spread(groups: Sequence[Sequence[float]], sizes: Sequence[int]) -> tuple[float, float]:
    """Standard error of a mean (one group) or difference (two), and Welch's degrees of freedom, with sizes[i] seeds in group i."""
    return _welch([(deviation(group) / math.sqrt(size), size - 1) for group, size in zip(groups, sizes, strict=True)])


def _welch(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Standard error and Welch's degrees of freedom of a sum of independent parts: (standard error, degrees of freedom) each."""
    total = math.hypot(*(part for part, _ in parts))
    if total == 0 or not math.isfinite(total):
        return total, float(min(freedom for _, freedom in parts))
    return total, 1 / math.fsum((part / total) ** 4 / freedom for part, freedom in parts)


def detectable(groups: Sequence[Sequence[float]], level: float) -> float | None:
    """Smallest true distance that these seeds would have shown with 80% power at the observed spread; None with a single seed or without
    spread, which says nothing of what would have shown."""
    sizes = [len(group) for group in groups]
    if min(sizes) < 2:
        return None
    found = _detectable(*_spread(groups, sizes), level)
    return found if found and math.isfinite(found) else None


def _detectable(error: float, freedom: float, level: float) -> float:
    """The noncentrality, in standard errors, at which a two-sided t test at 1 - level finds the distance with 80% power."""
    return error * float(special.nctdtrinc(freedom, 1 - POWER, _quantile(freedom, level))) if error else 0.0


def seeds_needed(groups: Sequence[Sequence[float]], distance: float, level: float) -> int | None:
    """Seeds a group that show a true `distance` with 80% power at the observed spread; None: more than 10,000, or a single seed now."""
    if min(len(group) for group in groups) < 2 or distance == 0:
        return None

    def enough(n: int) -> bool:
        return _detectable(*_spread(groups, [n] * len(groups)), level) <= abs(distance)

    low, high = 1, 2
    while not enough(high):
        if high >= _MOST_SEEDS:
            return None
        low, high = high, min(_MOST_SEEDS, high * 2)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
