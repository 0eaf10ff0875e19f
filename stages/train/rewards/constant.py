"""Gate `constant`: every completion passes with one declared score. The null control is `constant: 0.0`."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement


class Settings(Frozen):
    """One number."""

    score: float = Field(ge=0, le=1, description="Score of every completion.")


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass with `score`, whatever the completion says."""
    return [Judgement("pass", settings.score) for _ in answers]
