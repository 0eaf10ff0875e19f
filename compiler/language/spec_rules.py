"""The language of rules over a run's history: early stopping, red flags and green lights, expectations."""

from __future__ import annotations

from pydantic import Field

from compiler.document.units import LengthText
from stages.contracts.artifact import Section
from stages.contracts.names import Slug, exactly_one

_WHEN = "Comparisons of history metrics with numbers, joined by `and`, `or`, `not` and brackets; `slope(metric, 20%)` is the trend."
_FOR = "The condition holds on so many logged steps in a row; not given: once, for the mean over the last tenth of the run."


class EarlyStop(Section):
    """Stops a run that has nothing more to learn from. Null controls are never stopped."""

    when: str = Field(min_length=1, description=_WHEN)
    lasting: LengthText | None = Field(None, alias="for", description=_FOR)


class RedFlag(Section):
    """Stops a run that does not work, unless a green light is on."""

    when: str = Field(min_length=1, description=_WHEN)
    after: LengthText | None = Field(None, description="Place from which on the rule looks; not given: from the start.")
    lasting: LengthText | None = Field(None, alias="for", description=_FOR)
    conditions: tuple[Slug, ...] = Field((), max_length=1_000, description="Conditions it is for; not given: all but null controls.")


class GreenLight(Section):
    """Keeps a run going: no red flag stops it at a step at which this holds."""

    when: str = Field(min_length=1, description=_WHEN)
    conditions: tuple[Slug, ...] = Field((), max_length=1_000, description="Conditions it is for; not given: all but null controls.")


class Stop(Section):
    """When a run is stopped before its end. Applied live, and again in the analysis."""

    red_flags: tuple[RedFlag, ...] = Field((), max_length=50, description="Conditions that stop a run, in order.")
    green_lights: tuple[GreenLight, ...] = Field((), max_length=50, description="Conditions that hold red flags back.")


class Expectation(Section):
    """What a metric should have come to at a place of the run, written before the data. It is scored and never changes training."""

    id: Slug | None = Field(None, description="Name of the expectation; not given: made of the metric and the place.")
    metric: str = Field(min_length=1, description="A history metric such as `reward`, or `gate.<gate>.<measure>`.")
    at: LengthText = Field(description="Place in the run; the value is the mean over the tenth of the run that ends there.")
    above: float | None = Field(
        None, ge=-1e12, le=1e12, json_schema_extra={"unit": "share"}, description="Met when the value lies above this."
    )
    below: float | None = Field(
        None, ge=-1e12, le=1e12, json_schema_extra={"unit": "share"}, description="Met when the value lies below this."
    )
    conditions: tuple[Slug, ...] = Field((), max_length=1_000, description="Conditions it is about; not given: the treatments.")

    _one_bound = exactly_one("above", "below", says="an expectation has", why="the bound and its side decide the score", fix="above: 0.20")
