"""Intervals against textbook values, and their coverage on simulated seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from stages.analyse.frames import Window, window_of
from stages.analyse.statistics import (
    Interval,
    Share,
    batch_means,
    batches,
    completions_interval,
    detectable,
    estimate,
    proportion,
    seeds_needed,
    trend,
)
from stages.contracts.analysis_card import Windows
from stages.contracts.wilson import wilson


@pytest.mark.parametrize(
    ("steps", "initial", "final"),
    [
        (300, (1, 30), (271, 300)),
        (60, (1, 6), (55, 60)),
        (14, (1, 2), (13, 14)),
        (4, (1, 2), (3, 4)),
        (3, (1, 1), (3, 3)),
        (1, (1, 1), (1, 1)),
    ],
)
def test_windows_are_a_tenth_of_the_target_and_no_single_step_where_there_are_four(
    steps: int, initial: tuple[int, int], final: tuple[int, int]
) -> None:
    assert window_of("initial", steps, Windows()) == Window(*initial)
    assert window_of("final", steps, Windows()) == Window(*final)


def test_case_43_one_seed_has_a_value_and_no_interval() -> None:
    interval = estimate([[0.7]], 0.95)
    assert (interval.value, interval.low, interval.high, interval.n) == (0.7, None, None, 1)
    apart = estimate([[0.7], [0.2, 0.3]], 0.95)
    assert (apart.value, apart.low, apart.high, apart.n) == (pytest.approx(0.45), None, None, 1)


@pytest.mark.parametrize("values", [[0.5] * 3, [0.0] * 3, [0.1 + 0.2, 0.3, 0.3]])
def test_equal_seeds_have_no_interval(values: list[float]) -> None:
    """A t interval of no width would claim certainty; seeds that differ by a rounding are equal."""
    interval = estimate([values], 0.95)
    assert (interval.value, interval.low, interval.high, interval.n) == (pytest.approx(values[1]), None, None, 3)
    assert interval.method == "no spread between seeds: the interval would have no width"
    apart = estimate([values, [v - 0.4 for v in values]], 0.95)
    assert (apart.value, apart.low, apart.high) == (pytest.approx(0.4), None, None) and apart.method == interval.method
    assert detectable([[0.5] * 3, [0.1] * 3], 0.95) is None


def test_spread_of_one_group_and_small_spread_are_spread() -> None:
    """(0, 0, 3) against three zeros: standard error sqrt(3 / 3), two degrees of freedom, t = 4.302653."""
    uneven = estimate([[0.0, 0.0, 3.0], [0.0] * 3], 0.95)
    assert (uneven.low, uneven.high) == (pytest.approx(1 - 4.302653), pytest.approx(1 + 4.302653))
    small = estimate([[1.0, 1.0, 1.0 + 1e-12]], 0.95)
    assert small.low is not None and small.high is not None and 0 < small.high - small.low < 1e-11


def _equal(plus: list[Share], minus: list[Share]) -> Interval:
    value = sum(share.value for share in plus) - sum(share.value for share in minus)
    return completions_interval(Interval(value, None, None, 3, "", equal=True), plus, minus, 0.95)


def test_where_seeds_do_not_differ_the_error_of_their_completions_remains() -> None:
    """Newcombe 1998, table II, contrast (a): 56 of 70 against 48 of 80, his method 10."""

    def share(k: int, n: int, worth: float | None = None) -> Share:
        return Share(k / n, worth or n, f"{k} of {n} completions")

    interval = _equal([share(56, 70)], [share(48, 80)])
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    both = _equal([share(10, 10)], [share(0, 10)])  # contrast (h): 1.0 [0.6075, 1]
    assert (both.value, both.low, both.high) == pytest.approx((1.0, 0.6075, 1.0), abs=5e-5)
    full = stats.binomtest(60, 60).proportion_ci(0.95, method="wilson")
    whole = _equal([share(60, 60)], [])
    assert (whole.low, whole.high, whole.equal) == (pytest.approx(full.low), 1.0, True)
    # two shares minus two others: distances to the ends add up in squares (Zou and Donner)
    four = [share(56, 70, 17.5), share(48, 80, 20), share(0, 20, 5), share(9, 9)]
    wide = _equal([four[0], four[2]], [four[1], four[3]])
    ends = [wilson(share.value * share.worth, share.worth, 0.95) for share in four]
    below = ((0.8 - ends[0][0]) ** 2 + (ends[1][1] - 0.6) ** 2) ** 0.5
    above = ((ends[0][1] - 0.8) ** 2 + (0.6 - ends[1][0]) ** 2 + ends[2][1] ** 2 + (1 - ends[3][0]) ** 2) ** 0.5
    assert (wide.value, wide.low, wide.high) == pytest.approx((-0.8, -0.8 - below, -0.8 + above))
    assert wide.method.endswith("and 9 of 9 completions, counted as 18 and 5 and 20 and 9 independent ones")


def _spread(sd: float, n: int) -> list[float]:
    """n values with exactly this standard deviation."""
    raw = np.arange(n, dtype=float)
    return list((raw - raw.mean()) / raw.std(ddof=1) * sd)


@pytest.mark.parametrize(("distance", "needed"), [(1.0, 17), (0.8, 26), (0.5, 64)])
def test_seeds_needed_are_the_textbook_sample_sizes(distance: float, needed: int) -> None:
    """Two-sided t test, level 0.05, power 0.8: Cohen's tables."""
    assert seeds_needed([_spread(1.0, 3), _spread(1.0, 3)], distance, 0.95) == needed


def test_seeds_needed_has_limits() -> None:
    pair = [_spread(1.0, 3), _spread(1.0, 3)]
    assert seeds_needed(pair, 0.0, 0.95) is None
    assert seeds_needed(pair, 0.001, 0.95) is None  # over fifteen million
    assert seeds_needed([[1.0], [2.0, 3.0]], 0.5, 0.95) is None
    assert seeds_needed([[1.0] * 3, [2.0] * 3], 0.5, 0.95) == 2


UNEVEN = ([[0.15, 0.8], [0.1, 0.9]], [[0.1, 0.9], [0.5, 0.5]], [[0.0, 1.0]], [[1e-9, 2e-9, 3e-9], [5.0, 9.0, -4.0]])


@pytest.mark.parametrize("groups", UNEVEN)
def test_detectable_stands_on_few_and_uneven_seeds(groups: list[list[float]]) -> None:
    interval = detectable(groups, 0.95)
    assert interval is not None
    assert 0 < interval < 100
    assert seeds_needed(groups, interval * 1000, 0.95) == 2


# The formulas against scipy.stats, which is left out of the stage for its import time.


@pytest.mark.parametrize("seed", range(12))
def test_intervals_equal_those_of_scipy_stats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = (list(rng.normal(rng.normal(), rng.exponential(), rng.integers(2, 9))) for _ in range(2))
    level = [0.8, 0.9, 0.95, 0.99][seed % 4]
    interval, wanted = estimate([left], level), stats.t.interval(level, len(left) - 1, loc=np.mean(left), scale=stats.sem(left))
    assert (interval.low, interval.high) == pytest.approx(wanted, rel=1e-9)
    apart, welch = estimate([left, right], level), stats.ttest_ind(left, right, equal_var=False).confidence_interval(level)
    assert (apart.low, apart.high) == pytest.approx((welch.low, welch.high), rel=1e-9)
    n = int(rng.integers(1, 600))
    k = [0, n, int(rng.integers(0, n + 1))][seed % 3]
    share, wilson = proportion(k, n, level), stats.binomtest(k, n).proportion_ci(level, method="wilson")
    assert (share.low, share.high) == pytest.approx((wilson.low, wilson.high), abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 5, 9, 40])
def test_detectable_has_the_power_of_scipys_noncentral_t(n: int) -> None:
    interval = detectable([_spread(1.0, n), _spread(1.0, n)], 0.95) or 0.0
    freedom = 2 * n - 2
    assert stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, interval / (2 / n) ** 0.5) == pytest.approx(0.8, abs=1e-6)


# Coverage: of 1,000 intervals 950 should hold the truth; three standard errors of that share are 0.021.


def _welch(rng: np.random.Generator) -> Interval:
    return estimate([list(rng.normal(1.0, 0.3, 4)), list(rng.normal(0.2, 0.1, 4))], 0.95)


@pytest.mark.parametrize(
    ("interval", "truth"),
    [
        (lambda rng: estimate([list(rng.normal(0.6, 0.1, 3))], 0.95), 0.6),
        (_welch, 0.8),  # unequal spreads
        (lambda rng: proportion(int(rng.binomial(128, 0.3)), 128, 0.95), 0.3),
    ],
)
def test_intervals_cover_the_truth(interval: Callable[[np.random.Generator], Interval], truth: float) -> None:
    rng = np.random.default_rng(1)
    assert np.mean([_holds(interval(rng), truth) for _ in range(1000)]) == pytest.approx(0.95, abs=0.021)


@pytest.mark.parametrize(("a", "b"), [(5, 5), (9, 1), (1, 20), (100, 3)])
@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_intervals_of_bounded_values_stay_inside_and_cover_the_truth(a: float, b: float, seeds: int) -> None:
    """Shares of a skewed Beta distribution: a plain t interval of three seeds leaves 0..1 in most rounds and holds the truth in 0.89."""
    rng = np.random.default_rng(2)
    intervals = [estimate([list(rng.beta(a, b, seeds))], 0.95, bounds=(0.0, 1.0)) for _ in range(1000)]
    assert all(0 < (own.low or 0) < own.value < (own.high or 0) < 1 for own in intervals)
    assert 0.91 < np.mean([_holds(interval, a / (a + b)) for interval in intervals]) < 0.975


def test_the_scale_of_an_interval_is_that_of_its_bounds() -> None:
    """Mean 0.5 with a half width of 0.43027: on the logit scale 1.72106. Of lengths, which have one bound: the log scale."""
    share = estimate([[0.4, 0.5, 0.6]], 0.95, bounds=(0.0, 1.0))
    half = 4.302653 * 0.1 / 3**0.5
    assert share.low == pytest.approx(1 / (1 + np.exp(half / 0.25)), rel=1e-6)
    assert share.method == "t interval over seeds, on the logit scale"
    length = estimate([[4.0, 5.0, 6.0]], 0.95, bounds=(0.0, None))
    assert (length.low, length.high) == pytest.approx((5 / np.exp(2 * half), 5 * np.exp(2 * half)), rel=1e-6)
    outside = estimate([[1.4, 1.6]], 0.95, bounds=(0.0, 1.0))  # an import with a wrong unit
    assert outside.method == "t interval over seeds"


def _holds(interval: object, truth: float) -> bool:
    return bool(interval.low <= truth <= interval.high)  # type: ignore[attr-defined]


# Trend within a run: batch means.


def test_the_error_of_batch_means_by_hand() -> None:
    """About sqrt(n) stretches. Four rows: batches 2 and 6, sample deviation sqrt(8), error 2 with one degree of freedom."""
    assert (batches([1.0, 2.0, 3.0]), batch_means([1.0, 2.0, 3.0])) == ([], None)
    assert batches([0.0, 2.0, 4.0, 6.0, 8.0, 10.0]) == [2.0, 8.0] and len(batches([float(n) for n in range(30)])) == 5
    assert batch_means([1.0, 3.0, 5.0, 7.0]) == (4.0, pytest.approx(2.0))


def test_a_trend_over_batch_means_by_hand() -> None:
    """Sixteen rows of a ramp: the batches 1.5, 5.5, 9.5 and 13.5 have the variance 80 / 3."""
    ramp = [float(n) for n in range(16)]
    interval = trend(ramp, [100 + value for value in ramp], 0.95)
    half = stats.t.ppf(0.975, 6) * (2 * (80 / 3) / 4) ** 0.5
    assert (interval.value, interval.low, interval.high) == pytest.approx((100, 100 - half, 100 + half))
    assert interval.method == "t interval over batch means of one run's steps"
    assert interval.detectable is not None and interval.detectable > half


def test_a_trend_that_cannot_be_known_has_no_interval() -> None:
    few = trend([1.0] * 3, [2.0] * 9, 0.95)
    assert few.low is None and "fewer than four" in few.method
    flat = trend([1.0] * 4, [2.0] * 4, 0.95)
    assert (flat.value, flat.low, flat.high, flat.detectable) == (1.0, None, None, None)
    assert flat.method == "one run; no spread between steps: the interval would have no width"
    dust = trend([0.3, 0.1 + 0.2] * 3, [0.7] * 6, 0.95)  # rounding is no spread
    assert (dust.low, dust.method) == (None, flat.method)
    assert estimate([[0.0, -5.6e-17, 0.0]], 0.95).low is not None and estimate([[0.0, -5.6e-17, 0.0]], 0.95, 0.2).equal


def _correlated(rng: np.random.Generator, n: int, memory: float) -> list[float]:
    """A stationary first-order autoregression of unit variance."""
    noise = rng.normal(0, (1 - memory**2) ** 0.5, n)
    value, series = float(rng.normal()), []
    for step in noise:
        value = memory * value + float(step)
        series.append(value)
    return series


@pytest.mark.parametrize(("memory", "steps", "least"), [(0.0, 30, 0.93), (0.5, 30, 0.88), (0.5, 100, 0.89), (0.9, 100, 0.65)])
def test_trend_intervals_cover_the_truth_where_steps_are_correlated(memory: float, steps: int, least: float) -> None:
    """Runs of ten windows that learn. Rows taken as independent would hold the truth in about 0.74 at 0.5 and 0.36 at 0.9."""
    rng = np.random.default_rng(4)
    learning = 3 * (1 - np.exp(-3 * np.arange(10 * steps) / (10 * steps)))
    truth, held = float(learning[-steps:].mean() - learning[:steps].mean()), []
    for _ in range(300):
        run = learning + np.array(_correlated(rng, 10 * steps, memory))
        held.append(_holds(trend(run[:steps], run[-steps:], 0.95), truth))
    assert np.mean(held) > least


@pytest.mark.parametrize(("shared", "least", "most"), [(0.5, 0.96, 1.0), (0.0, 0.93, 0.97)])
def test_welch_is_cautious_where_seeds_of_two_conditions_move_together(shared: float, least: float, most: float) -> None:
    """Equal seeds may begin from equal weights and see equal data: a positive correlation makes the true error smaller than Welch's."""
    rng = np.random.default_rng(6)
    cov = [[1.0, shared], [shared, 1.0]]
    rounds = [rng.multivariate_normal([0.3, 0.0], cov, 3) for _ in range(1000)]
    held = [_holds(estimate([list(pairs[:, 0]), list(pairs[:, 1])], 0.95), 0.3) for pairs in rounds]
    assert least < np.mean(held) < most
