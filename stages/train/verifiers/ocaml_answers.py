"""Model-written OCaml: type checked, or run on tests, in the box; what is sent inside for an answer, and what comes back.

Answers without tests are type checked and never run. With tests, the process that runs the answer never holds them (see ocaml/runs.ml).
A job's outcome is `compiles`, `errors`, `syntax`, `empty`, `tested`, `stopped` (the answer used too much, ended early or may not be run),
`broken` (the data row is) or `unknown`.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers import ocaml_build, sandbox
from stages.train.verifiers.box import Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.verdict import Checked, stopped, unknown
from stages.train.verifiers.verifier import Verifier

MIB = 2**20
ANSWER_BYTES = 2 * MIB
"""Longer answers are not checked: what a policy can write is far shorter."""
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


_OUTCOMES = {
    "broken": ("broken", "the tests of the data row are broken: $"),
    "syntax": ("syntax", "$"),
    "empty": ("empty", "holds no code"),
    "forbidden": ("stopped", "uses `$`, which answers may not"),
    "raised": ("stopped", "raises an exception while it loads"),
    "ended": ("stopped", "ended without a result"),
    "compiles": ("compiles", ""),
}
"""Word of the judge -> outcome and reason; $ is what follows the word."""


def tier() -> str:
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
    judge = int(ended.why.removeprefix("judge-")) if ended.why.startswith("judge-") else 0
    if signal.SIGALRM in (ended.status & 127, judge & 127) and job.tests and ended.cpu < IDLE_SECONDS:
        return Checked("stopped", "waits and does not answer", keep=False)
    if ending := stopped(ended, job.cpu) or stopped(replace(ended, status=judge), job.cpu):
        return ending
    text = ended.written.decode("ascii", "replace").replace("Octavo_answer.", "")
    if judge or not text.endswith("end \n"):
        return Checked("stopped", "ended without a result")
    words = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    first = words.get("first", "")
    if "cases" in words:
        return Checked("tested", first, values=tuple(case == "+" for case in words["cases"]))
    if words.get("errors", "").isdigit():
        return Checked("errors", first, errors=int(words["errors"]))
    for word, (outcome, reason) in _OUTCOMES.items():
        if word in words:
            return Checked(outcome, reason.replace("$", words[word]))
    return unknown("the verifier's answer cannot be read")


@functools.cache
def verifier(tests: bool) -> Verifier[Job]:
    """This process's verifier, of jobs with tests or of those without: these are checked by machine code, which runs nothing."""
    return Verifier(runs if tests else checks, order, read)


def checked(answers: Sequence[Answer], before: str | None, tests: str | None, cpu: float, memory: int) -> list[Checked]:
    """One result an answer. `before` and `tests` are columns of the data row; a row without their text gives the outcome `broken`."""

    def job(answer: Answer) -> Job | Checked:
        texts = ["" if column is None else answer.row.get(column) for column in (before, tests)]
        for column, text in zip((before, tests), texts, strict=True):
            if not isinstance(text, str) or (column is not None and column == tests and not text.strip()):
                return Checked("broken", f"the data row has no text in column {column!r}")
        return Job(str(texts[0]), answer.text, str(texts[1]), cpu, memory)

    jobs = [job(answer) for answer in answers]
    results = iter(verifier(tests is not None).run([job for job in jobs if isinstance(job, Job)]))
    return [job if isinstance(job, Checked) else next(results) for job in jobs]


def unknown_judgement(result: Checked) -> Judgement | None:
    """The judgement of a result that is the fault of the verifier or of the data; None for all others."""
    return Judgement("unknown", None, result.reason) if result.outcome in ("unknown", "broken") else None
