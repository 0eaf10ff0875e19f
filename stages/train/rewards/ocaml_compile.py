"""Gate `ocaml_compile`: the whole answer compiles, as ocamlc would compile it to byte code. The answer is not run."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement

MIB = 2**20
COLUMNS = ("before",)


class Settings(Frozen):
    """What is compiled."""

    before: str | None = Field(None, description="Column with text that comes before the answer, such as the head of the function.")
    timeout: float = Field(5.0, gt=0, le=600, description="CPU time for one answer.", json_schema_extra={"unit": "s"})
    memory: int = Field(512 * MIB, ge=128 * MIB, description="Address space of the answer's process.", json_schema_extra={"unit": "B"})


def tier() -> str:
    """The sandbox that answers are checked in. Raises VerifierUnavailable."""
    from stages.train.verifiers.ocaml_answers import tier as checking_tier

    return checking_tier()


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass (1.0) when it compiles, else fail (0.0); unknown for faults of the verifier."""
    from stages.train.verifiers.ocaml_answers import checked, unknown_judgement

    results = checked(answers, settings.before, None, settings.timeout, settings.memory)
    return [
        Judgement("pass", 1.0)
        if result.outcome == "compiles"
        else unknown_judgement(result) or Judgement("fail", 0.0, f"does not compile: {result.reason}")
        for result in results
    ]
