"""Model-written Python: what is sent into the box for an answer, and what comes back.

A job's outcome is `values`, or `stopped` (the answer's fault: it does not load, uses too much, exits), or `unknown` (ours: no sandbox, a
process killed from outside, starvation).
"""

from __future__ import annotations

import functools
import json
import marshal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from stages.train.verifiers import inside, isolation
from stages.train.verifiers.box import OUTPUT_BYTES, Asking, Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.verdict import Checked, printable, stopped

CACHED_BYTES = 64 * 1024
"""Larger results are not kept."""


@dataclass(frozen=True)
class Job:
    """One answer with the arguments to call it with. Expected values are no part of it."""

    code: str
    answer: Literal["function", "expression"]
    names: tuple[str, ...]
    """The function's name, or the expression's arguments."""
    calls: str
    """JSON: a list of lists of arguments."""
    cpu: float
    """CPU seconds, for loading and all calls together."""
    memory: int
    """Bytes of address space."""


@dataclass(frozen=True)
class Value:
    """What one call gave (untrusted): a value of JSON's types, or an error in words. Its text takes a twentieth of the value's memory."""

    text: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return not self.error

    @property
    def value(self) -> Any:
        """The value; None where there is none."""
        return json.loads(self.text) if self.ok else None


@functools.cache
def program(tier: Tier) -> Program:
    """The program that runs answers, equal in every tier."""
    return Program(tuple(isolation.python_command(Path(inside.__file__).read_text(encoding="utf-8"))))


def order(job: Job) -> Order:
    """What is sent inside."""
    content = {"code": job.code, "answer": job.answer, "names": job.names, "calls": json.loads(job.calls)}
    return Order(marshal.dumps(content), job.cpu, job.memory)


def asking(job: Job) -> Asking:
    """One order an answer."""
    return read(job, (yield order(job)))


def read(job: Job, ended: Ended) -> Checked:
    """What the end of an answer's process means. Everything in `ended.written` is the answer's word."""
    if ending := stopped(ended, job.cpu):
        return ending
    checked = Checked("stopped", "ended without a result", len(ended.written) <= CACHED_BYTES, cpu=ended.cpu)
    if len(ended.written) >= OUTPUT_BYTES:
        return replace(checked, reason="the result is too large")
    try:
        text = ended.written.decode("ascii")
        if ended.status:
            return checked
        if text.startswith("load "):
            kind, words = json.loads(text[5:])
            return replace(checked, reason=printable(f"does not load: {kind}: {words}"))
        values = tuple(map(_value, text.split("\n") if text else ()))
    except (ValueError, TypeError, RecursionError):
        return checked
    return replace(checked, outcome="values", reason="", values=values) if len(values) == len(json.loads(job.calls)) else checked


def _value(line: str) -> Value:
    """What a line says of one call. Raises ValueError, TypeError or RecursionError where it is none of ours."""
    kind, _, text = line.partition(" ")
    if kind == "value":
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return Value(error="returned a value that cannot be read")
        return Value(text)
    if kind == "raised":
        name, words = json.loads(text)
        return Value(error=printable(f"raised {name}: {words}"))
    if kind == "odd":
        return Value(error=printable(f"returned a {json.loads(text)}, which is not plain data"))
    raise ValueError
