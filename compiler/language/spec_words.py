"""The parts of a spec that train nothing: questions, and what to do next. The page answers them from what was computed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from compiler.document.names import Slug, fault
from compiler.language.spec_part import Part
from stages.contracts.question import Section


class ShownMetric(Part):
    """A metric's movement in each condition."""

    metric: str = Field(min_length=1, max_length=200, description="A history metric such as `entropy`, or `evaluation.<score>.pass_share`.")


Show = Annotated[
    Annotated[Section, Tag("(section)")] | Annotated[ShownMetric, Tag("(metric)")],
    Discriminator(lambda value: "(metric)" if isinstance(value, dict | ShownMetric) else "(section)"),
]


class Question(Part):
    """A question with what is computed to answer it."""

    ask: str = Field(min_length=1, max_length=1000, description="The question, as the page shows it.")
    show: Show = Field(
        description="What answers it: `signal`, `reward`, `loss`, `anomalies`, `completion`, `claims`, `attempts`, or {metric: name}."
    )


def _form(value: Any) -> str:
    return "(block)" if isinstance(value, dict | Question) else "(text)"


QuestionUse = Annotated[
    Annotated[Annotated[str, Field(min_length=1, max_length=1000)], Tag("(text)")] | Annotated[Question, Tag("(block)")],
    Discriminator(_form),
]


class Move(Part):
    """Where a metric should come to: exactly one of `above` and `below`."""

    metric: str = Field(min_length=1, max_length=200, description="A history metric, or `evaluation.<score>.pass_share`.")
    above: float | None = Field(None, ge=-1e12, le=1e12, json_schema_extra={"unit": "share"}, description="It should lie above this.")
    below: float | None = Field(None, ge=-1e12, le=1e12, json_schema_extra={"unit": "share"}, description="It should lie below this.")

    @model_validator(mode="after")
    def _one(self) -> Move:
        if (self.above is None) == (self.below is None):
            raise fault(
                "E209", "what an action moves has exactly one of `above` and `below`", "the bound says when it has worked", "below: 0.10"
            )
        return self


class Action(Part):
    """What to do next, in the author's judgement. With `change` it can become a child of this experiment as it stands."""

    id: Slug = Field(description="Name of the action.")
    do: str = Field(min_length=1, max_length=2000, description="What to do.")
    priority: int = Field(1, ge=1, le=9, description="1 comes first.")
    change: dict[str, Any] = Field({}, max_length=100, description="Settings that would differ, by dotted key; it must compile with them.")
    because: str = Field("", max_length=2000, description="What it is for.")
    expect: tuple[Move, ...] = Field((), max_length=20, description="What it should move, and where to.")


VERDICTS = ("supported", "refuted", "inconclusive", "void")
SCORES = ("met", "missed")
Outcome = Literal["supported", "refuted", "inconclusive", "void", "met", "missed"]


class When(Part):
    """What a contingency plan waits for: a claim's verdict, an expectation, or a red flag; exactly one of them."""

    claim: Slug | None = Field(None, description="Id of a claim of this spec, with `is: refuted` or another verdict.")
    expectation: Slug | None = Field(None, description="Id of an expectation; without `is` the plan waits for it to be missed.")
    red_flag: int | None = Field(None, ge=1, le=50, description="Number of a red flag, from 1; the plan waits for it to stop a run.")
    states: Annotated[
        Annotated[Outcome | None, Tag("(one)")] | Annotated[tuple[Outcome, ...], Tag("(several)"), Field(min_length=1)],
        Discriminator(lambda value: "(several)" if isinstance(value, list | tuple) else "(one)"),
    ] = Field(None, alias="is", description="Of a claim its verdict or verdicts; of an expectation `missed` or `met`.")

    @property
    def wanted(self) -> tuple[str, ...]:
        """What it waits for, as words."""
        if self.red_flag is not None:
            return ("raised",)
        if self.states is None:
            return ("missed",)
        return (self.states,) if isinstance(self.states, str) else self.states

    @model_validator(mode="after")
    def _one(self) -> When:
        if sum(value is not None for value in (self.claim, self.expectation, self.red_flag)) != 1:
            raise fault(
                "E209",
                "a plan waits for exactly one of `claim`, `expectation` and `red_flag`",
                "its state is computed from what it waits for; two plans can do the same thing",
                "if: {claim: ..., is: refuted}",
            )
        known = VERDICTS if self.claim else SCORES if self.expectation else ()
        said = () if self.states is None else (self.states,) if isinstance(self.states, str) else self.states
        if (self.claim and not said) or any(state not in known for state in said):
            of = "a claim" if self.claim else "an expectation" if self.expectation else "a red flag, which is raised or not,"
            raise fault(
                "E209",
                f"`is` says for which outcome of {of} the plan is made",
                f"known: {', '.join(known) or 'none; leave it out'}",
                f"is: {'refuted' if self.claim else 'missed'}" if known else "delete `is`",
            )
        return self


class Contingency(Part):
    """What to do if things come out otherwise, written before they do."""

    id: Slug = Field(description="Name of the plan.")
    when: When = Field(alias="if", description="What it waits for.")
    do: str = Field(min_length=1, max_length=2000, description="What to do then.")
    change: dict[str, Any] = Field({}, max_length=100, description="Settings that would differ, by dotted key; it must compile with them.")
