"""Run model-written Python in the sandbox, many answers at a time: one warm zygote a process, one fork an answer.

`pool().run(jobs)` never raises. A job's result is its values, or `stopped` (the candidate's fault: it does not load, uses too much,
exits), or `unknown` (ours: no sandbox, a zygote that dies again and again, starvation). Equal jobs run once.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from stages.contracts.artifact import digest
from stages.train.verifiers import sandbox
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.python_process import PythonZygote
from stages.train.verifiers.zygote_process import Answered

MIB = 2**20
CANARY_EVERY = 500
"""Jobs between two checks that the zygote still tells good, bad and endless answers apart."""
RETIRE_AFTER = 5000
ATTEMPTS = 2
"""A job that the verifier failed runs once more, alone."""
STARTS = 3
CACHED_JOBS = 4096
CACHED_BYTES = 64 * 1024
"""Larger results are not kept."""
_CPU_SLACK = 0.05
"""CPU seconds by which the accounting may exceed the limit."""


@dataclass(frozen=True)
class Job:
    """One answer with the arguments to call it with. Expected values are no part of it."""

    code: str
    answer: Literal["function", "expression"]
    names: tuple[str, ...]
    """The function's name, or the expression's arguments."""
    calls: str
    """JSON: a list of lists of arguments."""
    cpu_seconds: float
    """For loading and all calls together."""
    memory: int
    """Bytes of address space."""

    @functools.cached_property
    def key(self) -> str:
        """Hash of all that decides the result."""
        return digest(json.dumps(asdict(self), sort_keys=True))

    @property
    def wall_seconds(self) -> float:
        """A candidate cannot sleep, so reaching this means that it got less than a tenth of a core."""
        return 5.0 + 10.0 * self.cpu_seconds


@dataclass(frozen=True)
class Value:
    """What one call gave: a value of JSON's types, or an error in words (untrusted)."""

    ok: bool
    value: Any = None
    error: str = ""


@dataclass(frozen=True)
class Ran:
    """What became of a job. `values` has one entry a call when the outcome is `values`, else none."""

    outcome: Literal["values", "stopped", "unknown"]
    values: tuple[Value, ...] = ()
    reason: str = ""
    cpu: float = 0.0
    """CPU seconds the candidate used."""
    keep: bool = False
    """Whether to keep this for equal jobs: not for time-outs and `unknown`, which may end otherwise, nor for large results."""


class Pool:
    """The verifier of one process. Thread-safe: jobs run one after the other."""

    def __init__(self, tier: Tier | None = None) -> None:
        self._tier, self._checked = tier, 0
        self._zygote: PythonZygote | None = None
        self._kept: OrderedDict[str, Ran] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Process whose end is the zygote's; None while there is none."""
        return self._zygote.pid if self._zygote else None

    def run(self, jobs: Sequence[Job]) -> list[Ran]:
        """One result a job, in order."""
        with self._lock:
            found: dict[str, Ran] = {}
            broken = ""
            for job in jobs:
                if job.key in found:
                    continue
                kept = self._kept.get(job.key)
                if kept is not None:
                    self._kept.move_to_end(job.key)
                elif broken:
                    kept = Ran("unknown", reason=broken)
                else:
                    try:
                        kept = self._keep(job, self._one(job))
                    except VerifierUnavailable as error:
                        broken = error.what
                    except VerifierFault as error:
                        broken = str(error)
                    kept = kept or Ran("unknown", reason=broken)
                found[job.key] = kept
            return [found[job.key] for job in jobs]

    def close(self) -> None:
        """End the zygote; the next job starts another."""
        if self._zygote:
            self._zygote.close()
            self._zygote = None

    def forget(self) -> None:
        """In a fork of this process: let go of the parent's zygote and of a lock that a vanished thread may hold."""
        self._lock = threading.Lock()
        self.close()

    def _one(self, job: Job) -> Ran:
        """Run a job, again when the verifier failed it. Raises when no zygote starts."""
        reason = ""
        for _ in range(ATTEMPTS):
            zygote = self._ready()
            try:
                ran = read(job, *_asked(zygote, job))
            except VerifierFault as fault:
                self._zygote, reason = None, str(fault)
                continue
            if ran.outcome != "unknown":
                return ran
            reason = ran.reason
        return Ran("unknown", reason=reason)

    def _ready(self) -> PythonZygote:
        """A zygote that is young and has passed its canaries. Raises VerifierFault after STARTS failed starts."""
        fault = VerifierFault("")
        for _ in range(STARTS):
            if self._zygote and (self._zygote.jobs >= RETIRE_AFTER or not self._zygote.alive):
                self.close()
            try:
                if self._zygote is None:
                    self._zygote, self._checked = PythonZygote(self._tier or sandbox.tier()), -CANARY_EVERY
                if self._zygote.jobs - self._checked >= CANARY_EVERY:
                    _check(self._zygote)
                    self._checked = self._zygote.jobs
                return self._zygote
            except VerifierFault as error:
                fault = error
                self.close()
        raise fault

    def _keep(self, job: Job, ran: Ran) -> Ran:
        if ran.keep:
            self._kept[job.key] = ran
            while len(self._kept) > CACHED_JOBS:
                self._kept.popitem(last=False)
        return ran


def read(job: Job, nonce: str, answered: Answered) -> Ran:
    """What an answer of the zygote means. Everything in `answered.written` is the candidate's word."""
    ran = Ran("stopped", cpu=answered.cpu, keep=len(answered.written or b"") <= CACHED_BYTES)
    if answered.why == "output":
        return replace(ran, reason="the result is too large")
    if answered.why or answered.written is None:
        return Ran("unknown", reason=f"the verifier was starved or could not start a process ({answered.why or 'set-up failed'})")
    killed = answered.status & 127
    if killed in (signal.SIGPROF, signal.SIGXCPU) or answered.cpu > job.cpu_seconds + _CPU_SLACK:
        return replace(ran, reason=f"timeout: used more than {job.cpu_seconds:g} s of CPU time", keep=False)
    if killed == signal.SIGKILL:
        return Ran("unknown", reason="the candidate's process was killed from outside")
    if killed:
        return replace(ran, reason=f"crashed with signal {killed}")
    try:
        if not answered.written.startswith(nonce.encode()):
            raise ValueError
        said = json.loads(answered.written[len(nonce) :])
        if "load" in said:
            kind, text = said["load"]
            return replace(ran, reason=clean(f"does not load: {kind}: {text}"))
        values = tuple(_value(*outcome) for outcome in said["calls"])
        if len(values) != len(json.loads(job.calls)):
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        return replace(ran, reason="ended without a result")
    return replace(ran, outcome="values", values=values)


def clean(text: str) -> str:
    """Untrusted words, short, printable and valid UTF-8."""
    text = text[:200].encode("utf-8", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _value(kind: str, first: str, second: str = "") -> Value:
    if kind == "value":
        try:
            return Value(True, json.loads(first))
        except (ValueError, TypeError, RecursionError):
            return Value(False, error="returned a value that cannot be read")
    if kind == "raised":
        return Value(False, error=clean(f"raised {first}: {second}"))
    return Value(False, error=clean(f"returned a {first}, which is not plain data"))


def _asked(zygote: PythonZygote, job: Job) -> tuple[str, Answered]:
    order = {"code": job.code, "answer": job.answer, "names": job.names, "calls": job.calls, "cpu": job.cpu_seconds, "memory": job.memory}
    return zygote.ask(order, job.wall_seconds)


_GOOD = Job("def f(x):\n    return [x, x * x]", "function", ("f",), "[[3]]", 1.0, 512 * MIB)
_BAD = replace(_GOOD, code="def f(x):\n    return [x, x + 1]")
_LOOP = replace(_GOOD, code="while True: pass", cpu_seconds=0.05)


def _check(zygote: PythonZygote) -> None:
    """Canaries. Raises VerifierFault when the zygote no longer tells right from wrong."""
    for canary, right in ((_GOOD, [3, 9]), (_BAD, [3, 4])):
        ran = read(canary, *_asked(zygote, canary))
        if [value.value for value in ran.values] != [right]:
            raise VerifierFault(f"a known answer came back as {ran.outcome} {ran.reason}")
    ran = read(_LOOP, *_asked(zygote, _LOOP))
    if not ran.reason.startswith("timeout"):
        raise VerifierFault(f"an endless loop came back as {ran.outcome} {ran.reason}")


@functools.cache
def pool() -> Pool:
    """This process's pool. It starts its zygote at the first job, and ends it when the process ends."""
    one = Pool()
    atexit.register(one.close)
    os.register_at_fork(after_in_child=one.forget)
    return one
