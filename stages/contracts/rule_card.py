"""Rules over a run's history as stages receive them: data, never code. `stages/rules/` is their one evaluator.

A measured quantity is a metric, or the slope of one. There is no `not`: the compiler pushes negation down to the comparisons, which
keeps what is unknown unknown.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from stages.contracts.artifact import Frozen
from stages.contracts.expressions import Expression


class RuleCard(Frozen):
    """A condition with its time. All lengths are steps of the run: the compiler resolves shares."""

    id: str
    """`early_stop`, `red_flag-1`, `green_light-2`: unique within a run, in the spec's numbering."""
    when: Expression
    after: int = Field(0, ge=0)
    """The rule looks at steps from this one on."""
    lasting: int | None = Field(None, ge=1)
    """The condition must hold on so many logged steps in a row, each step's own value; null: once, for means over the trailing window."""
    window: int = Field(ge=1)
    """Steps of the trailing window that a metric's mean is taken over: a tenth of the run, as of the final window."""


class StopCard(Frozen):
    """When a run is stopped. Null controls have none."""

    rules: tuple[RuleCard, ...] = Field(min_length=1)
    """`early_stop` first, then the red flags."""
    green_lights: tuple[RuleCard, ...] = ()
    """While one of these is on, no red flag stops the run. They do not hold back `early_stop`."""


class ConditionStop(Frozen):
    """The stop rules of one condition, for analysis."""

    condition: str
    stop: StopCard


class ExpectCard(Frozen):
    """What was expected of a metric before the run: scored met, missed or not reached, and never part of training."""

    id: str
    metric: str
    at_share: float | None = Field(None, gt=0, le=1)
    """Place as a share of the run's target steps; this or `at_step`."""
    at_step: int | None = Field(None, ge=1)
    direction: Literal["above", "below"]
    bound: float
    conditions: tuple[str, ...]

    @model_validator(mode="after")
    def _one_place(self) -> ExpectCard:
        if (self.at_share is None) == (self.at_step is None):
            raise ValueError("an expectation has exactly one of `at_share` and `at_step`")
        return self

    @property
    def place(self) -> str:
        """`50%` or `step 100`, as people say it."""
        return f"step {self.at_step}" if self.at_share is None else f"{round(100 * self.at_share, 9):g}%"

    @property
    def statistic(self) -> str:
        """Statistic of the findings that hold its values: `at-50pct`, `at-step-100`."""
        return "at-" + self.place.replace(" ", "-").replace("%", "pct")
