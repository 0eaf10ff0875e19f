"""Gate `python_tests`: run the completion's Python on the row's tests, in a sandbox, and compare the values here.

The tests' expected values never enter the sandbox, so a completion that forges its result gains nothing.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement

if TYPE_CHECKING:
    from stages.train.verifiers.python_answers import Job, Value
    from stages.train.verifiers.verdict import Checked
    from stages.train.verifiers.verifier import Verifier

MIB = 2**20
COLUMNS = ("tests",)


class Credit(Frozen):
    """How the score 0..1 is made up."""

    runs: float = Field(0.0, ge=0, le=1, description="For an answer that loads: it compiles and defines what it must.")
    share: float = Field(0.0, ge=0, le=1, description="Times the share of tests passed.")
    all: float = Field(1.0, ge=0, le=1, description="For passing every test.")

    @model_validator(mode="after")
    def _sums_to_one(self) -> Credit:
        total = self.runs + self.share + self.all
        if not math.isclose(total, 1.0, abs_tol=1e-9):
            raise ValueError(f"credit must sum to 1 and sums to {total:g}")
        return self


class Settings(Frozen):
    """What an answer is, where its tests are, what it may use."""

    answer: Literal["function", "expression"] = Field(
        "function", description="function: a program that defines `entry`. expression: one Python expression in `arguments`."
    )
    entry: str = Field("f", description="Name of the function that a `function` answer defines.")
    arguments: tuple[str, ...] = Field((), description="Names of the arguments of an `expression` answer, in the tests' order.")
    tests: str = Field("tests", min_length=1, description='Column with the tests: a list of {"arguments": [...], "expected": ...}.')
    timeout: float = Field(5.0, gt=0, le=600, description="CPU time for loading and all tests together.", json_schema_extra={"unit": "s"})
    memory: int = Field(512 * MIB, ge=128 * MIB, description="Address space of the answer's process.", json_schema_extra={"unit": "B"})
    credit: Credit = Field(Credit(), description="How the score is made up; sums to 1.")

    @field_validator("entry")
    @classmethod
    def _entry(cls, entry: str) -> str:
        if not entry.isidentifier():
            raise ValueError(f"{entry!r} is no Python name")
        return entry

    @model_validator(mode="after")
    def _arguments(self) -> Settings:
        for name in self.arguments:
            if not name.isidentifier():
                raise ValueError(f"{name!r} is no Python name")
        if len(set(self.arguments)) != len(self.arguments):
            raise ValueError("two arguments have one name")
        if self.answer == "expression" and not self.arguments:
            raise ValueError("an expression answer needs the names of its arguments")
        return self


class _BrokenRow(Exception):
    pass


def tier() -> str:
    """The sandbox that answers run in. Raises VerifierUnavailable when none holds on this machine."""
    from stages.train.verifiers.sandbox import tier as sandbox_tier

    return sandbox_tier()


@functools.cache
def verifier() -> Verifier[Job]:
    """This process's verifier of Python."""
    from stages.train.verifiers import python_answers
    from stages.train.verifiers.verifier import Verifier

    return Verifier(python_answers.program, python_answers.asking)


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass exactly when every test passes, else fail; unknown for a broken data row and for faults of the sandbox."""
    from stages.train.verifiers.python_answers import Job

    judgements: dict[int, Judgement] = {}
    jobs: dict[int, Job] = {}
    names = settings.arguments if settings.answer == "expression" else (settings.entry,)
    for index, answer in enumerate(answers):
        try:
            calls = _calls(settings, answer.row)
        except _BrokenRow as broken:
            judgements[index] = Judgement("unknown", None, str(broken))
        else:
            jobs[index] = Job(answer.text, settings.answer, names, calls, settings.timeout, settings.memory)
    for index, ran in zip(jobs, verifier().run(list(jobs.values())), strict=True):
        expected = [test["expected"] for test in answers[index].row[settings.tests]]
        judgements[index] = _judgement(settings.credit, ran, expected)
    return [judgements[index] for index in range(len(answers))]


def _calls(settings: Settings, row: Mapping[str, Any]) -> str:
    """The arguments of the row's tests for the sandbox, as JSON; the expected values stay here. Raises _BrokenRow."""
    tests = row.get(settings.tests)
    if not isinstance(tests, list) or not tests:
        raise _BrokenRow(f"the data row has no list of tests in column {settings.tests!r}")
    for number, test in enumerate(tests, start=1):
        if not isinstance(test, dict) or not isinstance(test.get("arguments"), list) or "expected" not in test:
            raise _BrokenRow(f"test {number} of the data row is not {{arguments: [...], expected: ...}}")
        if settings.answer == "expression" and len(test["arguments"]) != len(settings.arguments):
            raise _BrokenRow(f"test {number} of the data row has {len(test['arguments'])} arguments, not {len(settings.arguments)}")
    try:
        return json.dumps([test["arguments"] for test in tests])
    except (TypeError, ValueError, RecursionError) as error:
        raise _BrokenRow(f"arguments of the data row's tests are not JSON: {error}") from None


def _judgement(credit: Credit, ran: Checked, expected: list[Any]) -> Judgement:
    if ran.outcome == "unknown":
        return Judgement("unknown", None, ran.reason)
    if ran.outcome == "stopped":
        return Judgement("fail", 0.0, ran.reason)
    passed = sum(_holds(value, right) for value, right in zip(ran.values, expected, strict=True))
    if passed == len(expected):
        return Judgement("pass", 1.0)
    score = credit.runs + credit.share * passed / len(expected)
    broken = next((value.error for value in ran.values if value.error), "")
    return Judgement("fail", score, f"{passed} of {len(expected)} tests passed" + (f"; {broken}" if broken else ""))


def _holds(value: Value, right: Any) -> bool:
    """Whether a call gave what it should. A value that could be read with few frames on the stack may be too deep for more of them."""
    try:
        return value.ok and same(value.value, right)
    except RecursionError:
        return False


def same(value: Any, right: Any) -> bool:
    """Equal in type and value, all the way down: True is not 1, 1.0 is not 1, NaN equals nothing, floats compare exactly."""
    if type(value) is not type(right):
        return False
    if isinstance(value, list):
        return len(value) == len(right) and all(map(same, value, right))
    if isinstance(value, dict):
        return value.keys() == right.keys() and all(same(item, right[key]) for key, item in value.items())
    return bool(value == right)
