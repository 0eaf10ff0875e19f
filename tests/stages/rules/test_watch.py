"""Stop rules on both sides of every threshold, with hand-computed values."""

from __future__ import annotations

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.contracts.expressions import OPPOSITE, AllOf, AnyOf, Comparison, truth
from stages.contracts.expressions import text as text_of
from stages.contracts.stops import StopRule, StopRules, step_of
from stages.rules import Trailing, Watch, compared, width


def rule(when, *, id="red_flag-1", **rest):
    return StopRule(id=id, when=when, **{"window": 3, **rest})


def below(value, metric="reward", **rest):
    return Comparison(metric=metric, sign="<", value=value, **rest)


def stop_at(stop, rows):
    """(rule, step) at which the run stops; None when it goes on."""
    watch = Watch(stop)
    for step, row in rows:
        watch.see(step, row)
    return (watch.stopped.rule, watch.stopped.step) if watch.stopped else None


def rewards(*values, first=1):
    return [(step, {} if value is ... else {"reward": value}) for step, value in enumerate(values, start=first)]


SILENT = Comparison(metric="zero_signal_share", sign="==", value=1.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 1.0, 1.0], 3),  # for: 3 steps, on the third
        ([1.0, 1.0], None),  # one too few
        ([1.0, 1.0, 0.875, 1.0, 1.0, 1.0], 6),  # the row begins again
        ([1.0, 1.0, None, 1.0, 1.0], None),  # null is no number: it breaks the row
        ([1.0, 1.0, {"nonfinite": "nan"}, 1.0, 1.0], None),
        ([1.0, 1.0, ..., 1.0], 4),  # absent: not a logged step of the metric
        ([1.0 - 2**-53, 1.0, 1.0], None),  # as near as a float can be
    ],
)
def test_a_condition_that_lasts(values, expected):
    rows = [(step, {} if value is ... else {"zero_signal_share": value}) for step, value in enumerate(values, start=1)]
    answered = stop_at(StopRules(rules=(rule(SILENT, id="early_stop", lasting=3),)), rows)
    assert answered == (None if expected is None else ("early_stop", expected))


def test_after_counts_no_step_before_it():
    stop = StopRules(rules=(rule(SILENT, lasting=3, after=5),))
    rows = [(step, {"zero_signal_share": 1.0}) for step in range(1, 10)]
    assert stop_at(stop, rows) == ("red_flag-1", 7)  # 5, 6, 7


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.0, 0.0], 3),  # the first whole window
        ([0.0, 0.0], None),  # and not before it
        ([0.25, 0.25, 0.25], None),  # the mean is the bound itself: `<` does not hold
        ([0.25, 0.25, 0.249], 3),
        ([1.0, 0.0, 0.0, 0.0], 4),  # 1/3 at step 3, 0 at step 4
        ([None, {"nonfinite": "inf"}, ...], None),  # nothing is known: nothing fires
        ([None, 0.0, None], 3),  # the mean of what is known
    ],
)
def test_a_mean_over_the_trailing_window(values, expected):
    answered = stop_at(StopRules(rules=(rule(below(0.25)),)), rewards(*values))
    assert answered == (None if expected is None else ("red_flag-1", expected))


def test_steps_with_a_gradient_that_is_not_finite_do_not_count():
    stop = StopRules(rules=(rule(below(0.25)),))
    bad = {"reward": 9.0, "grad_norm": {"nonfinite": "nan"}}
    assert stop_at(stop, [(1, {"reward": 0.0, "grad_norm": 1.0}), (2, bad), (3, {"reward": 0.0, "grad_norm": 1.0})]) == ("red_flag-1", 3)
    skipped = {"reward": 9.0, "skipped": 1.0}
    assert stop_at(stop, [(1, {"reward": 0.0}), (2, skipped), (3, {"reward": 0.0})]) == ("red_flag-1", 3)
    flag = StopRule(id="red_flag-1", when=Comparison(metric="skipped", sign="==", value=1), lasting=2, window=3)
    assert stop_at(StopRules(rules=(flag,)), [(1, skipped), (2, skipped)]) == ("red_flag-1", 2)


@pytest.mark.parametrize(
    ("values", "slope"),
    [
        ([1.0, 2.0, 3.0], 1.0),
        ([0.0, 0.0, 3.0], 1.5),  # x - 2 = -1, 0, 1: (0 + 0 + 3) / 2
        ([0.3, 0.3, 0.3], 0.0),
        ([0.1, 0.1, 0.1, 0.1], 0.0),
        ([1.0, 2.0], None),
        ([1.0, None, 3.0], None),  # two values: every line fits
        ([9.0, 3.0, 2.0, 1.0], -1.0),  # the first one has left the window
    ],
)
def test_slopes(values, slope):
    trail = Trailing(3 if len(values) != 4 or values[0] == 9.0 else 4)
    for step, value in enumerate(values, start=1):
        trail.move(step, value)
    assert trail.slope == slope


def test_a_flat_series_does_not_rise():
    rising = Comparison(metric="reward", slope=3, sign=">", value=0)
    stop = StopRules(rules=(rule(below(0.5), after=4),), green_lights=(rule(rising, id="green_light-1"),))
    assert stop_at(stop, rewards(0.1, 0.1, 0.1, 0.1)) == ("red_flag-1", 4)
    assert stop_at(stop, rewards(0.1, 0.1, 0.1, 0.1 + 2**-56)) is None


def test_a_green_light_holds_a_red_flag_back_until_it_goes_out():
    light = rule(Comparison(metric="gate.tests.pass_share", sign=">=", value=0.05), id="green_light-1", window=1)
    watch = Watch(StopRules(rules=(rule(below(0.15), window=1, after=2),), green_lights=(light,)))
    shares = [0.05, 0.05, 0.06, 0.04]
    answered = [watch.see(step, {"reward": 0.1, "gate.tests.pass_share": share}) for step, share in enumerate(shares, start=1)]
    assert [(firing.step, firing.held_back) for firing in watch.firings] == [(2, "green_light-1"), (3, "green_light-1"), (4, None)]
    assert answered == [None, None, None, watch.firings[-1]]
    assert watch.see(5, {"reward": 0.1}) is None and len(watch.firings) == 3


def test_a_green_light_that_is_unknown_is_off():
    light = rule(Comparison(metric="entropy", sign=">=", value=0), id="green_light-1")
    stop = StopRules(rules=(rule(below(0.15), window=1),), green_lights=(light,))
    assert stop_at(stop, [(1, {"reward": 0.1, "entropy": None})]) == ("red_flag-1", 1)


def test_no_light_holds_an_early_stop_back():
    light = rule(below(1.0), id="green_light-1", window=1)
    early = rule(below(0.15), id="early_stop", lasting=1)
    assert stop_at(StopRules(rules=(early,), green_lights=(light,)), rewards(0.1)) == ("early_stop", 1)


def test_what_a_firing_says():
    watch = Watch(StopRules(rules=(rule(below(0.25), after=4),)))
    for step, row in rewards(1.0, 0.1, 0.2, 0.3):
        watch.see(step, row)
    firing = watch.stopped
    assert firing.quantity == "mean of reward over steps 2-4" and firing.first == 2
    assert firing.value == pytest.approx(0.2, abs=1e-15)


def test_unknown_parts():
    left, right = below(0.5), below(0.5, "entropy")
    yes, no, unknown = 0.4, 0.6, None
    every, either = AllOf(all=(left, right)), AnyOf(any=(left, right))
    table = {(yes, yes): (True, True), (yes, no): (False, True), (no, no): (False, False)}
    table |= {(yes, unknown): (None, True), (no, unknown): (False, None), (unknown, unknown): (None, None)}
    for (first, other), (both, any_of) in table.items():
        for values in ({left: first, right: other}, {left: other, right: first}):
            assert truth(every, partial(compared, quantities=values)) is both
            assert truth(either, partial(compared, quantities=values)) is any_of


@given(st.sampled_from(sorted(OPPOSITE)), st.floats(allow_nan=False), st.floats(allow_nan=False, allow_infinity=False))
def test_the_opposite_sign_is_the_negation(sign, value, bound):
    comparison, opposite = (Comparison(metric="reward", sign=s, value=bound) for s in (sign, OPPOSITE[sign]))
    assert comparison.holds_at(value) is not opposite.holds_at(value)


@given(st.lists(st.one_of(st.none(), st.floats(-1e300, 1e300)), min_size=1, max_size=30), st.integers(1, 12))
def test_running_sums_lose_nothing(values, wide):
    """Whatever has passed through the window, the mean is that of what is in it."""
    trail = Trailing(wide)
    for step, value in enumerate(values, start=1):
        trail.move(step, value)
        inside = [x for x in values[max(0, step - wide) : step] if x is not None]
        assert trail.mean == (pytest.approx(math.fsum(x / len(inside) for x in inside), rel=1e-12, abs=1e-12) if inside else None)


def test_lengths():
    assert [width(n, 0.1) for n in (1, 4, 14, 15, 60, 300)] == [1, 1, 1, 2, 6, 30]
    assert [step_of(0.5, n) for n in (1, 60, 61)] == [1, 30, 31]
    assert step_of(0.07, 100) == 7  # 0.07 * 100 is 7.000000000000001
    assert step_of(1.0, 60) == 60


def test_conditions_as_text():
    slope = Comparison(metric="reward", slope=60, sign="<=", value=0)
    assert text_of(AllOf(all=(AnyOf(any=(below(0.15), SILENT)), slope))) == (
        "(reward < 0.15 or zero_signal_share == 1) and slope(reward, 60 steps) <= 0"
    )
