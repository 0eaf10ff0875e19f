"""Run model-written Python in the sandbox, many answers at a time: one warm zygote a core, one fork an answer.

`pool().run(jobs)` never raises. A job's result is its values, or `stopped` (the candidate's fault: it does not load, uses too much,
exits), or `unknown` (ours: no sandbox, a zygote that dies again and again, starvation). Equal jobs run once.
"""

from __future__ import annotations

import functools
import json
import signal
from dataclasses import dataclass, replace
from typing import Any, Literal

from stages.train.verifiers import zygote_pool
from stages.train.verifiers.faults import VerifierFault
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.python_process import PythonZygote
from stages.train.verifiers.zygote_process import Answered

MIB = 2**20
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


class Pool(zygote_pool.Pool[Job, Ran, PythonZygote]):
    """The Python verifier of one process."""

    def start(self, tier: Tier, lane: int) -> PythonZygote:
        return PythonZygote(tier, lane)

    def ask(self, zygote: PythonZygote, job: Job) -> Ran:
        order = {
            "code": job.code,
            "answer": job.answer,
            "names": job.names,
            "calls": json.loads(job.calls),
            "cpu": job.cpu_seconds,
            "memory": job.memory,
        }
        return read(job, *zygote.ask(order, job.wall_seconds))

    def check(self, zygote: PythonZygote) -> None:
        for canary, right in ((_GOOD, [3, 9]), (_BAD, [3, 4])):
            ran = self.ask(zygote, canary)
            if [value.value for value in ran.values] != [right]:
                raise VerifierFault(f"a known answer came back as {ran.outcome} {ran.reason}")
        ran = self.ask(zygote, _LOOP)
        if not ran.reason.startswith("timeout"):
            raise VerifierFault(f"an endless loop came back as {ran.outcome} {ran.reason}")

    def unknown(self, reason: str) -> Ran:
        return Ran("unknown", reason=reason)


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
        _, ours, said = answered.written.decode("ascii").partition(nonce)
        if not ours or _:
            raise ValueError
        if said.startswith("load "):
            kind, text = json.loads(said[5:])
            return replace(ran, reason=clean(f"does not load: {kind}: {text}"))
        values = tuple(map(_value, said.split("\n") if said else ()))
        if len(values) != len(json.loads(job.calls)):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        return replace(ran, reason="ended without a result")
    return replace(ran, outcome="values", values=values)


def clean(text: str) -> str:
    """Untrusted words, short, printable and valid UTF-8."""
    text = text[:200].encode("utf-8", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _value(line: str) -> Value:
    """What a line says of one call. Raises ValueError, TypeError or RecursionError where it is none of ours."""
    kind, _, text = line.partition(" ")
    if kind == "value":
        try:
            return Value(True, json.loads(text))
        except (ValueError, RecursionError):
            return Value(False, error="returned a value that cannot be read")
    if kind == "raised":
        name, words = json.loads(text)
        return Value(False, error=clean(f"raised {name}: {words}"))
    if kind == "odd":
        return Value(False, error=clean(f"returned a {json.loads(text)}, which is not plain data"))
    raise ValueError


_GOOD = Job("def f(x):\n    return [x, x * x]", "function", ("f",), "[[3]]", 1.0, 512 * MIB)
_BAD = replace(_GOOD, code="def f(x):\n    return [x, x + 1]")
_LOOP = replace(_GOOD, code="while True: pass", cpu_seconds=0.05)


@functools.cache
def pool() -> Pool:
    """This process's pool. It starts its zygote at the first job, and ends it when the process ends."""
    one = Pool()
    one.end_with_process()
    return one
