"""Expectations: a metric's value at a place of a run, and whether it was as expected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stages.contracts.amounts import above, below
from stages.contracts.beside import beside, written
from stages.contracts.rule_card import ExpectCard
from stages.contracts.window_length import window_length
from stages.rules.watch import Row, numbers, stretch
from stages.rules.windows import Trailing, step_of

State = Literal["met", "missed", "not_reached"]


@dataclass(frozen=True)
class Answer:
    """`value` is the mean over the window's steps; None, with `why`, when the run did not get there or measured nothing."""

    state: State
    value: float | None
    window: str
    why: str


def place(expected: ExpectCard, target_steps: int) -> int:
    """The step of a run that an expectation is about."""
    return expected.at_step if expected.at_step is not None else step_of(expected.at_share or 1.0, target_steps)


def answer(expected: ExpectCard, rows: Iterable[tuple[int, Row]], *, target_steps: int, done: int, share: float) -> Answer:
    """`rows`: the run's logged steps, rising. `done`: steps that the run is known to have done. `share`: width of the trailing window
    in target steps.

    not_reached: the run ends before the place, or the metric has no number in the window.
    """
    at = place(expected, target_steps)
    wide = window_length(target_steps, share)
    window = stretch(max(1, at - wide + 1), at)
    if done < at:
        return Answer("not_reached", None, window, f"the run ends at step {done}" if done else "nothing was logged")
    trail = Trailing(wide)
    for step, row in rows:
        if step > at:
            break
        trail.move(step, numbers(row).get(expected.metric))
    trail.move(at, None)
    value = trail.mean
    if value is None:
        return Answer("not_reached", None, window, f"{expected.metric} has no value in {window}")
    over, under = above(value, expected.bound), below(value, expected.bound)
    met = over if expected.direction == "above" else under
    shown = beside(value, expected.bound, digits=4) if over or under else written(expected.bound)
    why = f"{shown} is {'' if met else 'not '}{expected.direction} {written(expected.bound)}"
    return Answer("met" if met else "missed", value, window, why)
