"""Type check and run model-written OCaml in the sandbox: one warm zygote a process, one fork an answer.

`pool().run(jobs)` never raises. Jobs without tests are type checked and never executed. Equal jobs run once.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from stages.train.verifiers import sandbox
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.ocaml_process import OcamlZygote, Order
from stages.train.verifiers.zygote_process import Answered

MIB = 2**20
CANARY_EVERY = 500
"""Jobs between two checks that the zygote still tells good, bad and endless answers apart."""
RETIRE_AFTER = 5000
ATTEMPTS = 2
"""A job that the verifier failed runs once more."""
STARTS = 3
CACHED_JOBS = 8192
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


class Pool:
    """The verifier of one process. Thread-safe: jobs run one after the other."""

    def __init__(self, tier: Tier | None = None) -> None:
        self._tier, self._checked = tier, 0
        self._zygote: OcamlZygote | None = None
        self._kept: OrderedDict[Job, Checked] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Process whose end is the zygote's; None while there is none."""
        return self._zygote.pid if self._zygote else None

    def run(self, jobs: Sequence[Job]) -> list[Checked]:
        """One result a job, in order."""
        with self._lock:
            found: dict[Job, Checked] = {}
            broken = ""
            for job in jobs:
                if job in found:
                    continue
                if job in self._kept:
                    self._kept.move_to_end(job)
                    found[job] = self._kept[job]
                    continue
                if not broken:
                    try:
                        found[job] = self._keep(job, self._one(job))
                        continue
                    except VerifierUnavailable as error:
                        broken = error.what
                    except VerifierFault as error:
                        broken = str(error)
                found[job] = _unknown(broken)
            return [found[job] for job in jobs]

    def close(self) -> None:
        """End the zygote; the next job starts another."""
        if self._zygote:
            self._zygote.close()
            self._zygote = None

    def forget(self) -> None:
        """In a fork of this process: let go of the parent's zygote and of a lock that a vanished thread may hold."""
        self._lock = threading.Lock()
        self.close()

    def _one(self, job: Job) -> Checked:
        """Run a job, again when the verifier failed it. Raises when no zygote starts."""
        reason = ""
        for _ in range(ATTEMPTS):
            zygote = self._ready()
            try:
                checked = read(job, *zygote.ask(job, job.wall_seconds))
            except VerifierFault as fault:
                self._zygote, reason = None, str(fault)
                continue
            if checked.outcome != "unknown":
                return checked
            reason = checked.reason
        return _unknown(reason)

    def _ready(self) -> OcamlZygote:
        """A zygote that is young and has passed its canaries. Raises VerifierFault after STARTS failed starts."""
        fault = VerifierFault("")
        for _ in range(STARTS):
            if self._zygote and (self._zygote.jobs >= RETIRE_AFTER or not self._zygote.alive):
                self.close()
            try:
                if self._zygote is None:
                    self._zygote, self._checked = OcamlZygote(self._tier or sandbox.tier()), -CANARY_EVERY
                if self._zygote.jobs - self._checked >= CANARY_EVERY:
                    _check(self._zygote)
                    self._checked = self._zygote.jobs
                return self._zygote
            except VerifierFault as error:
                fault = error
                self.close()
        raise fault

    def _keep(self, job: Job, checked: Checked) -> Checked:
        if checked.keep:
            self._kept[job] = checked
            while len(self._kept) > CACHED_JOBS:
                self._kept.popitem(last=False)
        return checked


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
    said = dict(line.split(" ", 1) for line in text[len(nonce) :].splitlines() if " " in line)
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


def _check(zygote: OcamlZygote) -> None:
    """Canaries. Raises VerifierFault when the zygote no longer tells right from wrong."""
    for job, right in _CANARIES:
        checked = read(job, *zygote.ask(job, job.wall_seconds))
        if checked != right:
            raise VerifierFault(f"a known answer came back as {checked.outcome} {checked.reason}")
    if read(_ILL, *zygote.ask(_ILL, _ILL.wall_seconds)).errors != 2:
        raise VerifierFault("two type errors were not counted as two")
    checked = read(_LOOP, *zygote.ask(_LOOP, _LOOP.wall_seconds))
    if not checked.reason.startswith("timeout"):
        raise VerifierFault(f"an endless loop came back as {checked.outcome} {checked.reason}")


@functools.cache
def pool() -> Pool:
    """This process's pool. It starts its zygote at the first job, and ends it when the process ends."""
    one = Pool()
    atexit.register(one.close)
    os.register_at_fork(after_in_child=one.forget)
    return one
