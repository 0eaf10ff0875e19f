"""Gate `ocaml_compile`: the whole answer compiles, as ocamlc would compile it to byte code. The answer is not run."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers import ocaml_answers
from stages.train.verifiers.ocaml_answers import MIB
from stages.train.verifiers.verdict import Checked

COLUMNS = ("before",)
tier = ocaml_answers.tier


class Settings(Frozen):
    """What is compiled."""

    before: str | None = Field(None, description="Column with text that comes before the answer, such as the head of the function.")
    timeout: float = Field(5.0, gt=0, le=600, description="CPU time for one answer.", json_schema_extra={"unit": "s"})
    memory: int = Field(512 * MIB, ge=128 * MIB, description="Address space of the answer's process.", json_schema_extra={"unit": "B"})


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass (1.0) when it compiles, else fail (0.0); unknown for faults of the verifier."""
    results = ocaml_answers.checked(answers, settings.before, None, settings.timeout, settings.memory)
    return [_judgement(result) for result in results]


def _judgement(result: Checked) -> Judgement:
    if result.outcome == "compiles":
        return Judgement("pass", 1.0)
    return ocaml_answers.unknown_judgement(result) or Judgement("fail", 0.0, f"does not compile: {result.reason}")
