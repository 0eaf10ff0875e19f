"""The parts of a spec that only words, and numbers already computed, answer to: questions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from compiler.spec_part import Part
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
