"""Where a run answers an expectation, and what rounding may not decide."""

from __future__ import annotations

from typing import Literal

import pytest

from stages.contracts.rule_card import ExpectCard
from stages.rules.places import Answer, answer


def asked(values: list[float], direction: Literal["above", "below"], bound: float) -> Answer:
    """Of a run whose last window is as long as the values."""
    n = len(values)
    card = ExpectCard(id="e", metric="truncated", direction=direction, bound=bound, at_step=10 * n, conditions=("a",))
    rows = [(9 * n + place, {"truncated": value}) for place, value in enumerate(values, 1)]
    return answer(card, rows, target_steps=10 * n, done=10 * n, share=0.1)


@pytest.mark.parametrize("direction", ["above", "below"])
def test_a_mean_that_is_its_bound_but_for_rounding_is_not_beyond_it(direction: Literal["above", "below"]) -> None:
    """(1.0 + 0.7 + 0.7) / 3 is 0.7999999999999999 in floats."""
    found = asked([1.0, 0.7, 0.7], direction, 0.8)
    assert (found.state, found.why) == ("missed", f"0.8 is not {direction} 0.8")


def test_means_beyond_their_bound() -> None:
    found = asked([1.0, 0.7, 0.7], "below", 0.81)
    assert (found.state, found.value, found.window) == ("met", pytest.approx(0.8), "steps 28-30")
    assert asked([1.0, 0.7, 0.7], "above", 0.81).state == "missed"


def test_the_window_of_a_short_run_is_that_of_its_findings() -> None:
    """Two steps of eight: 0.2 at step 7 and 0.6 at step 8."""
    card = ExpectCard(id="e", metric="kl", direction="above", bound=0.3, at_step=8, conditions=("a",))
    found = answer(card, [(7, {"kl": 0.2}), (8, {"kl": 0.6})], target_steps=8, done=8, share=0.1)
    assert (found.state, found.value, found.window) == ("met", 0.4, "steps 7-8")
