"""What a checker of proofs can find, and how much each kind of error is worth."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from pydantic import Field, model_validator

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement

CLASSES = ("syntax", "type", "tactic", "timeout", "other", "forbidden")
"""Kinds of failure, and the marks of the gates that check proofs: exactly one is true for an answer that fails."""
Outcome = Literal["proved", "syntax", "type", "tactic", "timeout", "other", "forbidden", "broken", "unknown"]
REASON_CHARS = 200
ANSWER_BYTES = 256 * 1024
"""Longer answers are not checked: what a policy can write is far shorter, and what is nested less deeply fits a checker's stack."""
OVERFLOW = "Stack overflow detected"
"""What Lean says when an answer was nested too deeply for its stack, before it aborts. Whoever forges it only fails."""
CPU_SLACK = 0.05
"""CPU seconds by which the accounting may exceed the limit."""
STACK_SIGNALS = (signal.SIGSEGV, signal.SIGBUS)
"""An answer nested too deeply ends so where the stack gives out inside C code, else with the checker's own error: both are its failure."""
J = TypeVar("J")
"""What a checker is asked."""


class Bounded(Protocol):
    """What a job may use."""

    @property
    def cpu(self) -> float:
        """CPU seconds."""

    @property
    def memory(self) -> int:
        """Bytes."""


@dataclass(frozen=True)
class Checked:
    """What became of a proof. `reason` may hold the answer's words, made printable."""

    outcome: Outcome
    """forbidden: a cheat, or what answers may not use; broken: the data row or the header is; unknown: the verifier failed."""
    reason: str = ""
    keep: bool = True
    """Whether to keep this for equal jobs: not for time-outs and unknown, which may end otherwise."""


class Scores(Frozen):
    """Score of a proof that fails, by the kind of its first error."""

    tactic: float = Field(1.0, ge=0, le=1, description="A step of the proof fails, or goals are left.")
    type: float = Field(0.7, ge=0, le=1, description="A term has the wrong type, or a name does not exist.")
    other: float = Field(0.5, ge=0, le=1, description="Any other error.")
    timeout: float = Field(0.5, ge=0, le=1, description="More CPU time, or more of the checker's own budget, than allowed.")
    syntax: float = Field(0.3, ge=0, le=1, description="The answer does not parse.")
    forbidden: float = Field(
        0.0,
        ge=0,
        le=1,
        description="A cheat: `sorry`, axioms, a changed goal, forbidden commands; no more than any other.",
    )

    @model_validator(mode="after")
    def _cheats_pay_least(self) -> Scores:
        if self.forbidden > min(self.tactic, self.type, self.other, self.timeout, self.syntax):
            raise ValueError("a cheat must not score more than an honest error does")
        return self


def too_long(answer: str) -> Checked | None:
    """What is said of an answer that is too long to be one."""
    if len(answer.encode("utf-8", "replace")) <= ANSWER_BYTES:
        return None
    return Checked("other", f"longer than {ANSWER_BYTES // 1024} KiB")


def unknown(reason: str) -> Checked:
    """The verifier could not decide."""
    return Checked("unknown", printable(reason), keep=False)


def used(what: str, job: Bounded, checker: str) -> Checked:
    """A job that was ended because it used too much of something; whatever else ended it (`wall`) is not its fault."""
    if what == "cpu":
        return Checked("timeout", f"used more than {job.cpu:g} s of CPU time", keep=False)
    if what == "memory":
        return Checked("other", f"used more than {job.memory // 2**20} MiB of memory", keep=False)
    if what == "output":
        return Checked("other", "wrote too much", keep=False)
    if what == "stack":
        return Checked("other", f"{checker} ran out of stack", keep=False)
    return unknown("the verifier got too little CPU time")


def printable(text: str) -> str:
    """One line of at most REASON_CHARS characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:REASON_CHARS]


def judgement(checked: Checked) -> Judgement:
    """What a gate says of a checked proof: pass (1.0), fail (0.0) with the mark of its class, or unknown."""
    marks = {name: checked.outcome == name for name in CLASSES}
    if checked.outcome == "proved":
        return Judgement("pass", 1.0, marks=marks)
    if checked.outcome in CLASSES:
        return Judgement("fail", 0.0, f"{checked.outcome}: {checked.reason}", marks)
    return Judgement("unknown", None, checked.reason)


def graded(scores: Scores, kind: str, answers: Sequence[Answer]) -> list[Judgement]:
    """Grade what a gate of `kind` said before of each answer; nothing is checked again."""
    return [_graded(scores, kind, answer.said.get(kind)) for answer in answers]


def _graded(scores: Scores, kind: str, said: Judgement | None) -> Judgement:
    if said is None:
        return Judgement("unknown", None, f"no gate of kind {kind!r} has checked this answer before")
    if said.status == "unknown":
        return Judgement("unknown", None, said.reason)
    if said.status == "pass":
        return Judgement("pass", 1.0)
    found = next((name for name in CLASSES if said.marks.get(name)), None)
    if found is None:
        return Judgement("unknown", None, f"the gate of kind {kind!r} does not say what is wrong")
    return Judgement("fail", getattr(scores, found), said.reason)


def judged(
    answers: Sequence[Answer], column: str, job: Callable[[str, str], J], run: Callable[[list[J]], list[Checked]]
) -> list[Judgement]:
    """What a checker says of each answer. `job` makes its question of a statement and an answer's text; rows without a text in `column`
    are unknown and are not asked about."""
    found = [Checked("broken", f"the data row has no text in column {column!r}")] * len(answers)
    jobs = {
        index: job(statement, answer.text) for index, answer in enumerate(answers) if isinstance(statement := answer.row.get(column), str)
    }
    for index, one in zip(jobs, run(list(jobs.values())) if jobs else [], strict=True):
        found[index] = one
    return [judgement(one) for one in found]
