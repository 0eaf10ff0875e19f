"""Gate `lean_error`: how far a proof that Lean refuses is from one, by the class of its first error.

It reads the verdict of the gate of kind `lean` before it; nothing is checked again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers.proofs import Scores, graded

READS = ("lean",)


class Settings(Frozen):
    """What an error is worth."""

    scores: Scores = Field(Scores(), description="Score by the class of the first error; a proof that holds scores 1.")


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass (1.0) for a proof that holds, else fail with the score of its class; unknown where the gate before is."""
    return graded(settings.scores, READS[0], answers)
