"""Gate `coq`: the completion proves the row's theorem, as Coq checks it in a sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers.proofs import CLASSES, judged

MARKS = CLASSES
COLUMNS = ("statement",)
WAITS = True
MIB = 2**20


class Settings(Frozen):
    """Where the theorem is, and what the proof may use."""

    statement: str = Field(
        "statement", min_length=1, description="Column with the theorem, `Theorem name binders : type.`; the completion is its proof."
    )
    header: str = Field("", description="Commands that come first, such as `Require Import Lia.`; they are read once.")
    axioms: tuple[str, ...] = Field((), description="Axioms that a proof may rest on, by the names that `Print Assumptions` gives.")
    timeout: float = Field(10.0, gt=0, le=3600, description="CPU time for one answer.", json_schema_extra={"unit": "s"})
    memory: int = Field(2048 * MIB, ge=512 * MIB, description="Address space of the answer's process.", json_schema_extra={"unit": "B"})


def tier() -> str:
    """The sandbox that answers are checked in. Raises VerifierUnavailable."""
    from stages.train.verifiers.coq_pool import tier as checking_tier

    return checking_tier()


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass (1.0) for a proof of the row's theorem, else fail with its class; unknown for broken rows and faults of the verifier."""
    from stages.train.verifiers.coq_pool import pool
    from stages.train.verifiers.coq_text import Job

    def job(statement: str, text: str) -> Job:
        return Job(statement, text, settings.axioms, settings.timeout, settings.memory)

    return judged(answers, settings.statement, job, lambda jobs: pool(settings.header).run(jobs))
