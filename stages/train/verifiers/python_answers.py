"""Model-written Python: what is sent into the sandbox for an answer, and what comes back.

A job's result is its values, or `stopped` (the answer's fault: it does not load, uses too much,
exits), or `unknown` (ours: no sandbox, a process killed from outside, starvation).
"""

from __future__ import annotations

import functools
import json
import marshal
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from stages.train.verifiers import isolation, python_inside
from stages.train.verifiers.box import OUTPUT_BYTES, Ended, Order
from stages.train.verifiers.isolation import Program, Tier

CACHED_BYTES = 64 * 1024
"""Larger results are not kept."""
CPU_SLACK = 0.05
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
    """CPU seconds the answer used."""
    keep: bool = False
    """Whether to keep this for equal jobs: not for time-outs and `unknown`, which may end otherwise, nor for large results."""


@functools.cache
def program(tier: Tier) -> Program:
    """The program that runs answers, equal in every tier."""
    return Program(tuple(isolation.python_command(Path(python_inside.__file__).read_text(encoding="utf-8"))))


def order(job: Job) -> Order:
    """What is sent inside."""
    content = {"code": job.code, "answer": job.answer, "names": job.names, "calls": json.loads(job.calls)}
    return Order(marshal.dumps(content), job.cpu_seconds, job.memory)


def read(job: Job, ended: Ended) -> Ran:
    """What the end of an answer's process means. Everything in `ended.written` is the answer's word."""
    ran = Ran("stopped", cpu=ended.cpu, keep=len(ended.written) <= CACHED_BYTES)
    killed = ended.status & 127
    if killed in (signal.SIGPROF, signal.SIGXCPU) or ended.cpu > job.cpu_seconds + CPU_SLACK:
        return replace(ran, reason=f"timeout: used more than {job.cpu_seconds:g} s of CPU time", keep=False)
    if ended.why:
        return unknown(f"the verifier was starved ({ended.why})")
    if killed == signal.SIGKILL:
        return unknown("the answer's process was killed from outside or could not be set up")
    if killed:
        return replace(ran, reason=f"crashed with signal {killed}")
    if len(ended.written) >= OUTPUT_BYTES:
        return replace(ran, reason="the result is too large")
    try:
        text = ended.written.decode("ascii")
        if ended.status:
            raise ValueError
        if text.startswith("load "):
            kind, words = json.loads(text[5:])
            return replace(ran, reason=clean(f"does not load: {kind}: {words}"))
        values = tuple(map(_value, text.split("\n") if text else ()))
        if len(values) != len(json.loads(job.calls)):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        return replace(ran, reason="ended without a result")
    return replace(ran, outcome="values", values=values)


def unknown(reason: str) -> Ran:
    """The verifier could not decide."""
    return Ran("unknown", reason=clean(reason))


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
