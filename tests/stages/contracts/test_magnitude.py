"""Sums and squares of numbers that are very large or very small."""

from __future__ import annotations

import math
import statistics
import warnings

import numpy as np
import pytest

from stages.analyse.correlated import neighbours
from stages.analyse.statistics import detectable, difference, mean, seeds_needed, trend
from stages.analyse.traces import Rows
from stages.contracts import magnitude
from stages.contracts.batch_means import batches, level

SIZES = (5e-300, 1e-170, 1e154, 1e200, 1e307)


def test_usual_numbers_are_left_alone_and_others_are_divided_by_a_power_of_two() -> None:
    assert magnitude.unit([]) == magnitude.unit([0.0]) == magnitude.unit([3.0, -1e50]) == 1.0
    assert magnitude.unit([-1e200]) == 2.0**665  # 1e200 is 2 ^ 664.4
    assert magnitude.unit([1.7e308]) == 2.0**1023
    assert magnitude.unit([5e-324]) == 2.0**-1073


def test_means_and_deviations_where_sums_and_squares_have_no_number() -> None:
    assert magnitude.mean([1.6e308, 1.6e308, 1.6e308]) == 1.6e308
    assert magnitude.mean([0.1] * 3) == pytest.approx(0.1)
    values = [1.0, 2.0, 4.0]
    for size in SIZES:
        assert magnitude.deviation([value * size for value in values]) == pytest.approx(statistics.stdev(values) * size)
    assert magnitude.deviation([0.1] * 3) == 0.0
    assert magnitude.deviation([1.7e308, -1.7e308]) == math.inf


@pytest.mark.parametrize("size", SIZES)
def test_intervals_grow_with_their_numbers(size: float) -> None:
    """What is computed of numbers and of numbers times a size differs by that size, whatever it is, without a warning."""
    left, right = [1.0, 2.0, 3.0], [0.0, 0.5, 0.25]
    rows = np.random.default_rng(3).normal(0.5, 1, 60)

    def ends(unit: float) -> list[float]:
        one, two = [value * unit for value in left], [value * unit for value in right]
        run = rows * unit
        found = [mean(one, 0.95), difference(one, two, 0.95), trend(Rows.of(run[:6]), Rows.of(run[-6:]), neighbours(run), 0.95)]
        found.append(trend(Rows.of(run[:30]), Rows.of(run[-30:]), 0.0, 0.95))
        numbers = [end for one in found for end in (one.value, one.low, one.high)]
        numbers += [found[2].detectable, detectable([one, two], 0.95), level(run.tolist()).error, *batches(run.tolist())]  # type: ignore[union-attr]
        return [(number or math.nan) / unit for number in numbers]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ends(size) == pytest.approx(ends(1.0), rel=1e-9)
        assert neighbours(rows * size) == neighbours(rows)
        assert seeds_needed([[value * size for value in left]] * 2, 0.5 * size, 0.95) == 64  # Cohen's tables: half a deviation


def test_what_no_number_can_hold_has_no_interval() -> None:
    """The mean is 1.67e308, and its interval would end beyond the largest number, 1.8e308."""
    found = mean([1.7e308, 1.7e308, 1.6e308], 0.95)
    assert (found.value, found.low, found.high) == (pytest.approx(1.6666666666666667e308), None, None)
    assert "larger than any number" in found.method
    assert detectable([[1.7e308, -1.7e308], [1.0, 2.0]], 0.95) is None
