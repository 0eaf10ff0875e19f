"""Model-written OCaml: type checked, or run on tests, in the box; what is sent inside for an answer, and what comes back.

Answers without tests are type checked and never run. With tests, the process that runs the answer never holds them (see ocaml/runs.ml).
A job's outcome is `compiles`, `errors`, `syntax`, `empty`, `tested`, `stopped` (the answer used too much, ended early or may not be run),
`broken` (the data row is) or `unknown`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers import ocaml_build, sandbox
from stages.train.verifiers.box import Asking, Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.verdict import Checked, stopped, unknown
from stages.train.verifiers.verifier import Verifier

MIB = 2**20
ANSWER_BYTES = 2 * MIB
"""Longer answers are not checked: what a policy can write is far shorter."""


@dataclass(frozen=True)
class Job:
    """One answer. `before` is trusted text that comes before it; `tests` are trusted items with assertions, or "" for a type check."""

    before: str
    answer: str | None
    """None: only the cases of the tests are counted."""
    tests: str
    cpu: float
    """CPU seconds."""
    memory: int
    """Bytes of address space."""
    cases: int = 0
    """Of the tests, as counted before an answer ran."""


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


def asking(job: Job) -> Asking:
    """One order an answer."""
    before, answer, tests = (text.encode("utf-8", "surrogatepass") for text in (job.before, job.answer or "", job.tests))
    if len(answer) > ANSWER_BYTES:
        return Checked("stopped", f"longer than {ANSWER_BYTES // MIB} MiB")
    texts = b"%d\n" % len(before) + before + answer
    answer, tests = (b"", texts + tests) if job.answer is None else (texts, tests)
    return read(job, (yield Order(answer, job.cpu, job.memory, tests)))


def read(job: Job, ended: Ended) -> Checked:
    """What the end of the processes means. `ended` is about the one that ran the answer; the judge alone has written."""
    judge = int(ended.why.removeprefix("judge-")) if ended.why.startswith("judge-") else 0
    if ending := stopped(ended, job.cpu) or stopped(replace(ended, status=judge), job.cpu):
        return ending if job.answer is not None else unknown(f"the tests were not counted: {ending.reason}")
    text = ended.written.decode("ascii", "replace").replace("Octavo_answer.", "")
    lines = text.splitlines() if text.endswith("end \n") and not judge else ["ended "]
    words = dict(line.split(" ", 1) for line in lines if " " in line)
    first, count = words.get("first", ""), words.get("counted") or words.get("errors", "")
    if "cases" in words and len(words["cases"]) == job.cases:
        return Checked("tested", first, values=tuple(case == "+" for case in words["cases"]))
    if count.isdigit():
        return Checked("counted" if job.answer is None else "errors", first, count=int(count))
    for word, (outcome, reason) in _OUTCOMES.items():
        if word in words:
            return Checked(outcome, reason.replace("$", words[word]))
    return unknown("the verifier's answer cannot be read")


class Answers(Verifier[Job]):
    """Counts the cases of tests before an answer runs, by processes that have no answer; any other number than that is refused."""

    def check(self, jobs: list[Job]) -> dict[Job, Checked]:
        tests = {job: replace(job, answer=None) for job in jobs if job.tests and job.answer is not None}
        counted = dict(zip(tests.values(), self.run(list(tests.values())), strict=True)) if tests else {}
        results = {job: counted[row] for job, row in tests.items() if counted[row].outcome != "counted"}
        ready = {replace(job, cases=counted[tests[job]].count) if job in tests else job: job for job in jobs if job not in results}
        return results | {ready[job]: result for job, result in super().check(list(ready)).items()}


@functools.cache
def verifier(tests: bool) -> Answers:
    """This process's verifier, of jobs with tests or of those without: these are checked by machine code, which runs nothing."""
    return Answers(runs if tests else checks, asking)


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
