"""Gate `lean_error`: how far a proof that Lean refuses is from one, by the class of its first error.

It reads the verdict of the gate of kind `lean` before it; nothing is checked again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers.verdict import CLASSES

READS = ("lean",)


class Scores(Frozen):
    """Score of a proof that fails, by the kind of its first error."""

    tactic: float = Field(1.0, ge=0, le=1, description="A step of the proof fails, or goals are left.")
    type: float = Field(0.7, ge=0, le=1, description="A term has the wrong type, or a name does not exist.")
    other: float = Field(0.5, ge=0, le=1, description="Any other error.")
    timeout: float = Field(0.5, ge=0, le=1, description="More CPU time, or more of the checker's own budget, than allowed.")
    syntax: float = Field(0.3, ge=0, le=1, description="The answer does not parse.")
    forbidden: float = Field(
        0.0, ge=0, le=1, description="A cheat: `sorry`, axioms, a changed goal, forbidden commands; no more than any other."
    )

    @model_validator(mode="after")
    def _cheats_pay_least(self) -> Scores:
        if self.forbidden > min(self.tactic, self.type, self.other, self.timeout, self.syntax):
            raise ValueError("a cheat must not score more than an honest error does")
        return self


class Settings(Frozen):
    """What an error is worth."""

    scores: Scores = Field(Scores(), description="Score by the class of the first error; a proof that holds scores 1.")


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass (1.0) for a proof that holds, else fail with the score of its class; unknown where the gate before is."""
    return [_graded(settings.scores, answer.earlier.get("lean")) for answer in answers]


def _graded(scores: Scores, verdict: Judgement | None) -> Judgement:
    if verdict is None:
        return Judgement("unknown", None, "no gate of kind 'lean' has checked this answer before")
    if verdict.status == "unknown":
        return Judgement("unknown", None, verdict.reason)
    if verdict.status == "pass":
        return Judgement("pass", 1.0)
    kind = next((name for name in CLASSES if verdict.marks.get(name)), None)
    if kind is None:
        return Judgement("unknown", None, "the gate of kind 'lean' does not say what is wrong")
    return Judgement("fail", getattr(scores, kind), verdict.reason)
