"""Gate `exact_match`: the completion equals a text of its data row, character by character."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement

COLUMNS = ("column",)


class Settings(Frozen):
    """Which column holds the text."""

    column: str = Field(min_length=1, description="Column of the data row that holds the one right text.")
    strip: bool = Field(True, description="Ignore white space at both ends of the completion and of the text.")


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass (1.0) when equal, else fail (0.0); unknown when the row has no such text."""
    return [_judge(settings, answer) for answer in answers]


def _judge(settings: Settings, answer: Answer) -> Judgement:
    right = answer.row.get(settings.column)
    if not isinstance(right, str):
        state = "has no column" if settings.column not in answer.row else f"holds {type(right).__name__}, not text, in column"
        return Judgement("unknown", None, f"the data row {state} {settings.column!r}")
    text = answer.text
    if settings.strip:
        text, right = text.strip(), right.strip()
    return Judgement("pass", 1.0) if text == right else Judgement("fail", 0.0, f"differs from column {settings.column!r}")
