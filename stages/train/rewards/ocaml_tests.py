"""Gate `ocaml_tests`: run the answer on the row's assertions, in a sandbox, and count here which of them hold.

The assertions see the answer's names, but none that shadows the standard library's: an answer that redefines `=` changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers import ocaml_answers
from stages.train.verifiers.ocaml_answers import MIB
from stages.train.verifiers.verdict import Checked

COLUMNS = ("tests", "before")
tier = ocaml_answers.tier


class Settings(Frozen):
    """Where the tests are, what the score is, what the answer may use."""

    tests: str = Field("tests", min_length=1, description="Column with the tests: OCaml items with `assert`, each of which is a case.")
    partial: bool = Field(True, description="Score the share of cases that hold; else 1 for all of them and 0 for fewer.")
    before: str | None = Field(None, description="Column with text that comes before the answer, such as the head of the function.")
    timeout: float = Field(5.0, gt=0, le=600, description="CPU time for loading and all cases together.", json_schema_extra={"unit": "s"})
    memory: int = Field(512 * MIB, ge=128 * MIB, description="Address space of the answer's process.", json_schema_extra={"unit": "B"})


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass exactly when every case holds, else fail; unknown for broken data rows and faults of the verifier."""
    results = ocaml_answers.checked(answers, settings.before, settings.tests, settings.timeout, settings.memory)
    return [_judgement(settings, result) for result in results]


def _judgement(settings: Settings, result: Checked) -> Judgement:
    if result.outcome != "tested":
        reason = f"does not parse: {result.reason}" if result.outcome == "syntax" else result.reason
        return ocaml_answers.unknown_judgement(result) or Judgement("fail", 0.0, reason)
    held, cases = sum(result.values), len(result.values)
    if held == cases:
        return Judgement("pass", 1.0)
    reason = f"{held} of {cases} cases hold" + (f"; {result.reason}" if result.reason else "")
    return Judgement("fail", held / cases if settings.partial else 0.0, reason)
