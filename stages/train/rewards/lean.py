"""Gate `lean`: the completion proves the row's theorem, as Lean checks it in a sandbox or on a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers.verdict import CLASSES, Checked

MARKS = CLASSES
COLUMNS = ("statement",)
MIB = 2**20


class Settings(Frozen):
    """Where the theorem is, and what the proof may use."""

    statement: str = Field(
        "statement", min_length=1, description="Column with the theorem, `theorem name binders : type`, with or without `:= by sorry`."
    )
    answer: Literal["proof", "tactics", "file"] = Field(
        "proof", description="proof: what follows `:=`. tactics: what follows `:= by`. file: a text that states and proves it again."
    )
    header: str = Field("import Mathlib", description="Imports, `open` and options that come before everything.")
    axioms: tuple[str, ...] = Field(
        ("propext", "Classical.choice", "Quot.sound"),
        description="Axioms that a proof may rest on, as `#print axioms` names them.",
    )
    timeout: float = Field(60.0, gt=0, le=3600, description="CPU time for one answer.", json_schema_extra={"unit": "s"})
    memory: int = Field(8192 * MIB, ge=512 * MIB, description="Resident memory of Lean at work.", json_schema_extra={"unit": "B"})


def tier() -> str:
    """The sandbox that answers are checked in. Raises VerifierUnavailable."""
    from stages.train.verifiers.lean import tier as checking_tier

    return checking_tier()


def require(settings: Settings) -> None:
    """Raises VerifierUnavailable when this machine's Lean cannot check anything after the header."""
    from stages.train.verifiers.lean_setup import require_library

    require_library(settings.header)


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass (1.0) for a proof of the row's theorem, else fail with its class; unknown for broken rows and faults of the verifier."""
    from stages.train.verifiers.lean import verifier
    from stages.train.verifiers.lean_text import Job

    results = [Checked("broken", f"the data row has no text in column {settings.statement!r}")] * len(answers)
    jobs = {
        index: Job(settings.header, statement, answer.text, settings.answer, settings.axioms, settings.timeout, settings.memory)
        for index, answer in enumerate(answers)
        if isinstance(statement := answer.row.get(settings.statement), str)
    }
    for index, checked in zip(jobs, verifier().run(list(jobs.values())) if jobs else [], strict=True):
        results[index] = checked
    return [_judgement(checked) for checked in results]


def _judgement(checked: Checked) -> Judgement:
    marks = {name: checked.outcome == name for name in CLASSES}
    if checked.outcome == "proved":
        return Judgement("pass", 1.0, marks=marks)
    if checked.outcome in CLASSES:
        return Judgement("fail", 0.0, f"{checked.outcome}: {checked.reason}", marks)
    return Judgement("unknown", None, checked.reason)
