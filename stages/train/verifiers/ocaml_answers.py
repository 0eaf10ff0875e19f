"""Model-written OCaml: type checked, or run on tests, in the sandbox; what is sent inside for an answer, and what comes back.

Answers without tests are type checked and never run. With tests, the process that runs the answer never holds them (see ocaml/runs.ml).
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers import ocaml_build, sandbox
from stages.train.verifiers.box import Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.verifier import Verifier

Outcome = Literal["compiles", "errors", "syntax", "empty", "tested", "stopped", "broken", "unknown"]
MIB = 2**20
ANSWER_BYTES = 2 * MIB
"""Longer answers are not checked: what a policy can write is far shorter."""
CPU_SLACK = 0.05
"""CPU seconds by which the accounting may exceed the limit."""
IDLE_SECONDS = 0.2
"""An answer's process that has used less CPU time than this when the wall limit comes has waited on purpose."""


@dataclass(frozen=True)
class Job:
    """One answer. `before` is trusted text that comes before it; `tests` are trusted items with assertions, or "" for a type check."""

    before: str
    answer: str
    tests: str
    cpu: float
    """CPU seconds."""
    memory: int
    """Bytes of address space."""


@dataclass(frozen=True)
class Checked:
    """What became of a job. `reason` may hold the answer's words, made printable."""

    outcome: Outcome
    """broken: the data row is; stopped: the answer used too much, ended early or may not be run."""
    reason: str = ""
    errors: int = 0
    """Items with a type error; 0 with the outcome `errors`: only the whole program has one."""
    cases: tuple[bool, ...] = ()
    """One entry an assertion, for the outcome `tested`."""
    keep: bool = True
    """Whether to keep this for equal jobs: not for time-outs and unknown, which may end otherwise."""


_OUTCOMES: dict[str, tuple[Outcome, str]] = {
    "broken": ("broken", "the tests of the data row are broken: $"),
    "syntax": ("syntax", "$"),
    "empty": ("empty", "holds no code"),
    "forbidden": ("stopped", "uses `$`, which answers may not"),
    "raised": ("stopped", "raises an exception while it loads"),
    "ended": ("stopped", "ended without a result"),
    "compiles": ("compiles", ""),
}
"""Word of the judge -> outcome and reason; $ is what follows the word."""


def tier() -> Tier:
    """The sandbox that OCaml answers are checked in. Raises VerifierUnavailable where none holds, or OCaml is missing."""
    ocaml_build.program()
    return sandbox.tier()


def runs(tier: Tier) -> Program:
    """The program that runs answers. Raises VerifierUnavailable."""
    path = str(ocaml_build.program())
    return Program((path,), (path, ocaml_build.compiler()[2]))


def checks(tier: Tier) -> Program:
    """The program that only type checks. Raises VerifierUnavailable."""
    path = str(ocaml_build.checker())
    return Program((path,), (path, ocaml_build.compiler()[2]))


def order(job: Job) -> Order | Checked:
    """What is sent inside."""
    before, answer, tests = (text.encode("utf-8", "surrogatepass") for text in (job.before, job.answer, job.tests))
    if len(answer) > ANSWER_BYTES:
        return Checked("stopped", f"longer than {ANSWER_BYTES // MIB} MiB")
    return Order(b"%d\n" % len(before) + before + answer, job.cpu, job.memory, tests)


def read(job: Job, ended: Ended) -> Checked:
    """What the end of the processes means. `ended` is about the one that ran the answer; the judge alone has written."""
    if ended.why == "wall":
        return unknown("the verifier was starved")
    judge = int(ended.why.removeprefix("judge-") or 0)
    signals = (ended.status & 127, judge & 127)
    if {signal.SIGPROF, signal.SIGXCPU}.intersection(signals) or ended.cpu > job.cpu + CPU_SLACK:
        return Checked("stopped", f"timeout: used more than {job.cpu:g} s of CPU time", keep=False)
    if signal.SIGALRM in signals and job.tests and ended.cpu < IDLE_SECONDS:
        return Checked("stopped", "waits and does not answer", keep=False)
    if signal.SIGALRM in signals:
        return unknown("the verifier was starved")
    if signal.SIGKILL in signals:
        return unknown("the answer's process was killed from outside or could not be set up")
    if signals != (0, 0):
        return Checked("stopped", "crashed")
    text = ended.written.decode("ascii", "replace").replace("Octavo_answer.", "")
    if judge or not text.endswith("end \n"):
        return Checked("stopped", "ended without a result")
    words = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    first = words.get("first", "")
    if "cases" in words:
        return Checked("tested", first, cases=tuple(case == "+" for case in words["cases"]))
    if words.get("errors", "").isdigit():
        return Checked("errors", first, errors=int(words["errors"]))
    outcome = next((name for name in _OUTCOMES if name in words), "")
    if not outcome:
        return unknown("the verifier's answer cannot be read")
    return Checked(_OUTCOMES[outcome][0], _OUTCOMES[outcome][1].replace("$", words[outcome]))


def unknown(reason: str) -> Checked:
    """The verifier could not decide."""
    return Checked("unknown", reason, keep=False)


@functools.cache
def verifier(tests: bool) -> Verifier[Job, Checked]:
    """This process's verifier, of jobs with tests or of those without: these are checked by machine code, which runs nothing."""
    return Verifier(runs if tests else checks, order, read, unknown)


def checked(answers: Sequence[Answer], before: str | None, tests: str | None, cpu: float, memory: int) -> list[Checked]:
    """One result an answer. `before` and `tests` are columns of the data row; a row without their text gives the outcome `broken`."""
    results: list[Checked | None] = [None] * len(answers)
    jobs: dict[int, Job] = {}
    for index, answer in enumerate(answers):
        texts = []
        for column in (before, tests):
            text = "" if column is None else answer.row.get(column)
            if not isinstance(text, str) or (column is not None and column == tests and not text.strip()):
                results[index] = Checked("broken", f"the data row has no text in column {column!r}")
                break
            texts.append(text)
        else:
            jobs[index] = Job(texts[0], answer.text, texts[1], cpu, memory)
    for index, result in zip(jobs, verifier(tests is not None).run(list(jobs.values())), strict=True):
        results[index] = result
    return [result or unknown("the verifier gave no result") for result in results]


def unknown_judgement(result: Checked) -> Judgement | None:
    """The judgement of a result that is the fault of the verifier or of the data; None for all others."""
    return Judgement("unknown", None, result.reason) if result.outcome in ("unknown", "broken") else None
