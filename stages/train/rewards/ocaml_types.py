"""Gate `ocaml_types`: how many items of the answer do not type check, counted item by item. The answer is not run.

A syntax error is not a type error: text that does not parse has no types at all, and scores `syntax_error`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers import ocaml_answers
from stages.train.verifiers.ocaml_answers import MIB
from stages.train.verifiers.verdict import Checked

MARKS = ("parses",)
COLUMNS = ("before",)
tier = ocaml_answers.tier


class Settings(Frozen):
    """What is checked, and what a number of errors scores."""

    by_errors: dict[int, float] = Field(
        {0: 1.0, 1: 0.75, 2: 0.5, 3: 0.25}, description="Number of items with a type error -> score; a number that is not listed scores 0."
    )
    syntax_error: float = Field(0.0, ge=0, le=1, description="Score of an answer that does not parse; no more than any listed score.")
    before: str | None = Field(None, description="Column with text that comes before the answer, such as the head of the function.")
    timeout: float = Field(5.0, gt=0, le=600, description="CPU time for one answer.", json_schema_extra={"unit": "s"})
    memory: int = Field(512 * MIB, ge=128 * MIB, description="Address space of the answer's process.", json_schema_extra={"unit": "B"})

    @model_validator(mode="after")
    def _garbage_pays_least(self) -> Settings:
        counts = sorted(self.by_errors)
        scores = [self.by_errors[count] for count in counts]
        if 0 not in counts or counts[0] < 0:
            raise ValueError("by_errors needs a score for 0 errors, and no number of errors is below 0")
        if not all(0 <= score <= 1 for score in scores) or scores != sorted(scores, reverse=True):
            raise ValueError("scores by_errors lie in 0..1 and do not rise with the number of errors")
        if self.syntax_error > scores[-1]:
            raise ValueError("a syntax error must not score more than type errors do: text that is no OCaml would pay")
        return self


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass without an error, else fail with the score of the number of errors; unknown for faults of the verifier."""
    results = ocaml_answers.checked(answers, settings.before, None, settings.timeout, settings.memory)
    return [_judgement(settings, result) for result in results]


def _judgement(settings: Settings, result: Checked) -> Judgement:
    if result.outcome == "compiles" or (result.outcome == "errors" and result.count == 0):
        return Judgement("pass", settings.by_errors[0], marks={"parses": True})
    if result.outcome == "errors":
        items = "1 item" if result.count == 1 else f"{result.count} items"
        score = settings.by_errors.get(result.count, 0.0)
        return Judgement("fail", score, f"{items} with a type error; {result.reason}", {"parses": True})
    if result.outcome == "syntax":
        return Judgement("fail", settings.syntax_error, f"does not parse: {result.reason}", {"parses": False})
    return ocaml_answers.unknown_judgement(result) or Judgement("fail", 0.0, result.reason, {"parses": False})
