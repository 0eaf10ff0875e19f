"""Stop rules and expectations: the sections of a spec, and rules with all lengths in steps. `stages/rules.py` evaluates the rules.

A measured quantity is a metric, or the slope of one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from stages.contracts.artifact import Frozen, Section
from stages.contracts.expressions import Expression
from stages.contracts.names import Band, Slug, refused, slugged

_LENGTH = r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%\s*|\s*([0-9]{1,9})\s*steps?\s*"


def step_of(share: float, target_steps: int) -> int:
    """The first step at which this share of the run is done; at least 1."""
    return max(1, math.ceil(round(share * target_steps, 9)))


@dataclass(frozen=True)
class Length:
    """`amount` is a number of steps, or a share of 1."""

    amount: float
    unit: Literal["steps", "%"]

    def steps(self, target_steps: int) -> int:
        """In steps of a run: of a share, up to the first step at which it is done; 0 for nothing."""
        if self.amount == 0:
            return 0
        return int(self.amount) if self.unit == "steps" else step_of(self.amount, target_steps)


def length(text: str) -> Length | None:
    """The length that a text says, such as `20%` or `60 steps`; None when it is none."""
    match = re.fullmatch(_LENGTH, text)
    if match is None:
        return None
    return Length(float(match[2]), "steps") if match[2] else Length(float(f"{float(match[1]) / 100:.15g}"), "%")


def read_length(text: str) -> Length:
    """The length of a text that a model has accepted."""
    amount = length(text)
    assert amount is not None, text
    return amount


def _with_unit(value: Any) -> Any:
    if isinstance(value, str) and length(value) is not None:
        return value
    shown = f"`{value}`"[:60] if isinstance(value, str | int | float) and not isinstance(value, bool) else "no text"
    raise refused("E260", value=shown)


LengthText = Annotated[str, BeforeValidator(_with_unit), Field(json_schema_extra={"pattern": f"^(?:{_LENGTH})$"})]
"""Text with the unit checked."""
_WHEN = "Comparisons of history metrics with numbers, joined by `and`, `or`, `not` and brackets; `slope(metric, 20%)` is the trend."
_FOR = "Number of logged steps in a row on which the condition must hold; not given: once, for the mean over the last tenth of the run."


class EarlyStop(Section):
    """Stops a run that has nothing more to learn from. Null controls are never stopped."""

    when: str = Field(min_length=1, description=_WHEN)
    lasting: LengthText | None = Field(None, alias="for", description=_FOR)


class GreenLight(Section):
    """Keeps a run going: no red flag stops it at a step at which this holds."""

    when: str = Field(min_length=1, description=_WHEN)
    conditions: tuple[Slug, ...] = Field((), max_length=1_000, description="Conditions it is for; not given: all but null controls.")


class RedFlag(EarlyStop):
    """Stops a run that does not work, unless a green light is on."""

    after: LengthText | None = Field(None, description="Place from which on the rule looks; not given: from the start.")
    conditions: tuple[Slug, ...] = Field((), max_length=1_000, description="Conditions it is for; not given: all but null controls.")


class Stop(Section):
    """When a run is stopped before its end. Applied live, and again in the analysis."""

    red_flags: tuple[RedFlag, ...] = Field((), max_length=50, description="Conditions that stop a run, in order.")
    green_lights: tuple[GreenLight, ...] = Field((), max_length=50, description="Conditions that hold red flags back.")


class StopRule(Frozen):
    """A condition with its time, for the runs of one condition: all lengths are steps."""

    id: str
    """`early_stop`, `red_flag-1`, `green_light-2`: unique within a run, in the spec's numbering."""
    when: Expression
    after: int = Field(0, ge=0)
    """The rule looks at steps from this one on."""
    lasting: int | None = Field(None, ge=1)
    """Logged steps in a row on which the condition must hold, each step's own value; null: once, for means over the trailing window."""
    window: int = Field(ge=1)
    """Steps of the trailing window that a metric's mean is taken over: a tenth of the run, as of the final window."""

    @property
    def earliest(self) -> int:
        """The first step at which it can hold."""
        begins = max(1, self.after)
        return begins + self.lasting - 1 if self.lasting else max(begins, self.window)


class StopRules(Frozen):
    """When a run is stopped. Null controls have none."""

    rules: tuple[StopRule, ...] = Field(min_length=1)
    """`early_stop` first, then the red flags."""
    green_lights: tuple[StopRule, ...] = ()
    """While one of these is on, no red flag stops the run. They do not hold back `early_stop`."""


class Expectation(Band):
    """What a metric should have come to at a place of the run, written before the data. It is scored and never changes training."""

    id: Slug | None = Field(None, description="Name of the expectation; not given: made of the metric and the place.")
    metric: str = Field(min_length=1, description="A history metric such as `reward`, or `gate.<gate>.<measure>`.")
    at: LengthText = Field(description="Place in the run; the value is the mean over the tenth of the run that ends there.")
    conditions: tuple[Slug, ...] = Field((), max_length=1_000, description="Conditions it is about; not given: the treatments.")

    @property
    def name(self) -> str:
        """Its id; without one `reward-at-50pct`."""
        return self.id or slugged(f"{self.metric.removeprefix('gate.')}-{self.statistic}")

    @property
    def place(self) -> str:
        """`50%` or `step 100`, as people say it."""
        at = read_length(self.at)
        return f"step {at.amount:g}" if at.unit == "steps" else f"{round(100 * at.amount, 9):g}%"

    @property
    def statistic(self) -> str:
        """Statistic of the findings that hold its values: `at-50pct`, `at-step-100`."""
        return "at-" + self.place.replace(" ", "-").replace("%", "pct")
