"""What a verifier says of an answer, what the end of its process means, and what can go wrong with a verifier: for every language."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stages.contracts.diagnostic import StageError

if TYPE_CHECKING:
    from stages.train.verifiers.box import Ended

CLASSES = ("syntax", "type", "tactic", "timeout", "other", "forbidden")
"""Kinds of failure of a proof, and the marks of the gates that check proofs: exactly one is true for an answer that fails."""
CPU_SLACK = 0.05
"""CPU seconds by which the accounting may exceed the limit."""
REASON_CHARS = 200


class VerifierUnavailable(StageError):
    """Model-written code cannot be checked on this machine, so it is not run at all. Ends a stage that needs it."""

    def __init__(self, what: str, *, why: str, fix: str) -> None:
        super().__init__("S220", what, why=why, fix=fix)


class VerifierFault(Exception):
    """A box did not start, died, fell silent or answered nonsense: retry, then unknown."""


@dataclass(frozen=True)
class Checked:
    """What became of an answer. `reason` may hold the answer's words, made printable."""

    outcome: str
    """`unknown`: the verifier failed; `broken`: the data row is; `stopped`: the answer used too much, ended early or may not be run; else
    a word of the language's own."""
    reason: str = ""
    keep: bool = True
    """Whether to keep this for equal jobs: not for what may end otherwise, nor for large results."""
    values: tuple[Any, ...] = ()
    """Python: what each call gave; OCaml: whether each assertion holds."""
    count: int = 0
    """OCaml: cases of a row's tests; items with a type error, 0 with the outcome `errors`: only the whole program has one."""
    cpu: float = field(default=0.0, compare=False)
    """CPU seconds that the answer used."""


def unknown(reason: str) -> Checked:
    """The verifier could not decide."""
    return Checked("unknown", printable(reason), keep=False)


def stopped(ended: Ended, cpu: float) -> Checked | None:
    """Why an answer's process did not end by itself; None when it did. `cpu`: the seconds that it had."""
    killed = ended.status & 127
    if killed in (signal.SIGPROF, signal.SIGXCPU) or ended.cpu > cpu + CPU_SLACK:
        return Checked("stopped", f"timeout: used more than {cpu:g} s of CPU time", keep=False, cpu=ended.cpu)
    if ended.why == "starved":
        return unknown("the verifier was starved")
    if ended.why == "waited":
        return Checked("stopped", "waits and does not answer", keep=False)
    if killed in (signal.SIGKILL, signal.SIGTERM):  # a scheduler sends SIGTERM to all processes of a job; an answer can send none
        return unknown("the answer's process was killed from outside or could not be set up")
    return Checked("stopped", "crashed", cpu=ended.cpu) if killed else None


def printable(text: str) -> str:
    """One line of at most REASON_CHARS characters, valid UTF-8."""
    text = text[: 4 * REASON_CHARS].encode("utf-8", "backslashreplace").decode()
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:REASON_CHARS]
