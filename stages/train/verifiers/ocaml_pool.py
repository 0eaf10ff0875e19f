"""Type check and run model-written OCaml in the sandbox: one warm zygote a core, one fork an answer.

`pool().run(jobs)` never raises. Jobs without tests are type checked and never executed. Equal jobs run once.
"""

from __future__ import annotations

import functools
import signal
from dataclasses import dataclass, replace
from typing import Literal

from stages.train.verifiers import ocaml_build, zygote_pool
from stages.train.verifiers.faults import VerifierFault
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.ocaml_process import OcamlZygote, Order
from stages.train.verifiers.zygote_process import Answered

MIB = 2**20
ANSWER_BYTES = 2 * MIB
"""Longer answers are not checked: what a policy can write is far shorter, and a zygote dies of reading three."""
_CPU_SLACK = 0.05
"""CPU seconds by which the accounting may exceed the limit."""


@dataclass(frozen=True)
class Job(Order):
    """One answer. `before` is trusted text that comes before it; `tests` are trusted items with assertions, or "" for a type check."""

    @property
    def wall_seconds(self) -> float:
        """A candidate cannot sleep, so reaching this means that it got less than a tenth of a core."""
        return 5.0 + 10.0 * self.cpu


@dataclass(frozen=True)
class Checked:
    """What became of a job. `reason` may hold the candidate's words, made printable."""

    outcome: Literal["compiles", "errors", "syntax", "empty", "tested", "stopped", "broken", "unknown"]
    """broken: the data row is; stopped: the candidate used too much, ended early or may not be run."""
    reason: str = ""
    errors: int = 0
    """Items with a type error; 0 with the outcome `errors`: only the whole program has one."""
    cases: tuple[bool, ...] = ()
    """One entry an assertion, for the outcome `tested`."""
    keep: bool = True
    """Whether to keep this for equal jobs: not for time-outs and unknown, which may end otherwise."""


class Pool(zygote_pool.Pool[Job, Checked, OcamlZygote]):
    """The OCaml verifier of one process."""

    def start(self, tier: Tier, lane: int) -> OcamlZygote:
        return OcamlZygote(tier, lane)

    def ask(self, zygote: OcamlZygote, job: Job) -> Checked:
        if len(job.answer.encode("utf-8", "replace")) > ANSWER_BYTES:
            return Checked("stopped", f"longer than {ANSWER_BYTES // MIB} MiB")
        return read(job, *zygote.ask(job, job.wall_seconds))

    def check(self, zygote: OcamlZygote) -> None:
        for job, right in _CANARIES:
            checked = self.ask(zygote, job)
            if checked != right:
                raise VerifierFault(f"a known answer came back as {checked.outcome} {checked.reason}")
        if self.ask(zygote, _ILL).errors != 2:
            raise VerifierFault("two type errors were not counted as two")
        checked = self.ask(zygote, _LOOP)
        if not checked.reason.startswith("timeout"):
            raise VerifierFault(f"an endless loop came back as {checked.outcome} {checked.reason}")

    def unknown(self, reason: str) -> Checked:
        return _unknown(reason)


class CheckPool(Pool):
    """The same for jobs without tests, at half the CPU time: its zygotes are machine code and run nothing."""

    def start(self, tier: Tier, lane: int) -> OcamlZygote:
        return OcamlZygote(tier, lane, ocaml_build.checker())

    def check(self, zygote: OcamlZygote) -> None:
        for job, right in ((replace(_GOOD, tests=""), "compiles"), (_ILL, "errors"), (_SYNTAX, "syntax"), (_SLOW, "stopped")):
            checked = self.ask(zygote, job)
            if checked.outcome != right or (job is _ILL and checked.errors != 2):
                raise VerifierFault(f"a known answer came back as {checked.outcome} {checked.reason}")


def read(job: Job, nonce: str, answered: Answered) -> Checked:
    """What an answer of the zygote means. Everything in `answered.written` comes from the candidate's process."""
    if answered.written is None:
        return _unknown("the verifier could not start a process")
    killed = answered.status & 127
    if killed in (signal.SIGPROF, signal.SIGXCPU) or answered.cpu > job.cpu + _CPU_SLACK:
        return Checked("stopped", f"timeout: used more than {job.cpu:g} s of CPU time", keep=False)
    if killed == signal.SIGKILL:
        return _unknown("the candidate's process was killed from outside")
    if killed:
        return Checked("stopped", "crashed")
    text = answered.written.decode("ascii", "replace")
    if not text.startswith(nonce) or not text.endswith("end \n"):
        return Checked("stopped", "ended without a result")
    text = text[len(nonce) :].replace(f"Answer_{nonce}.", "")  # in words about the answer's own names: equal answers get equal reasons
    said = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    return _read(said)


def _read(said: dict[str, str]) -> Checked:
    first = said.get("first", "")
    if "broken" in said:
        return Checked("broken", f"the tests of the data row are broken: {said['broken']}")
    if "syntax" in said:
        return Checked("syntax", said["syntax"])
    if "empty" in said:
        return Checked("empty", "holds no code")
    if "forbidden" in said:
        return Checked("stopped", f"uses `{said['forbidden']}`, which answers may not")
    if "raised" in said:
        return Checked("stopped", "raises an exception while it loads")
    if "cases" in said:
        return Checked("tested", first, cases=tuple(case == "+" for case in said["cases"]))
    if "compiles" in said:
        return Checked("compiles")
    if said.get("errors", "").isdigit():
        return Checked("errors", first, errors=int(said["errors"]))
    return _unknown("the verifier's answer cannot be read")


def _unknown(reason: str) -> Checked:
    return Checked("unknown", reason, keep=False)


_TESTS = "let () = assert (f 1 = 2); assert (f 2 = 4);;"
_GOOD = Job("", "let f x = 2 * x", _TESTS, 2.0, 512 * MIB)
_CANARIES = (
    (_GOOD, Checked("tested", cases=(True, True))),
    (replace(_GOOD, answer="let f x = x + 1"), Checked("tested", cases=(True, False))),
    (replace(_GOOD, tests=""), Checked("compiles")),
)
_ILL = replace(_GOOD, answer='let f x = x + "1"\nlet g = 1 ^ 2', tests="")
_LOOP = replace(_GOOD, answer="let f x = while true do () done; x", cpu=0.05)
_SYNTAX = replace(_GOOD, answer="let f x = (", tests="")
_SLOW = replace(
    _GOOD,  # each line squares the number of leaves of a type
    answer="let a x = (x, x) let b x = a (a x) let c x = b (b x) let d x = c (c x) let e x = d (d x) let f x = e (e x) let g x = f (f x)",
    tests="",
    cpu=0.05,
)


@functools.cache
def pool() -> Pool:
    """This process's pool. It starts its zygote at the first job, and ends it when the process ends."""
    one = Pool()
    one.end_with_process()
    return one


@functools.cache
def check_pool() -> CheckPool:
    """The same for jobs without tests."""
    one = CheckPool()
    one.end_with_process()
    return one
