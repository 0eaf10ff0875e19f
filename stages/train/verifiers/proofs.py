"""What becomes of a proof that Lean checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CLASSES = ("syntax", "type", "tactic", "timeout", "other", "forbidden")
"""Kinds of failure, and the marks of the gates that check proofs: exactly one is true for an answer that fails."""
Outcome = Literal["proved", "syntax", "type", "tactic", "timeout", "other", "forbidden", "broken", "unknown"]
REASON_CHARS = 200


@dataclass(frozen=True)
class Checked:
    """What became of a proof. `reason` may hold the answer's words, made printable."""

    outcome: Outcome
    """forbidden: a cheat, or what answers may not use; broken: the data row or the header is; unknown: the verifier failed."""
    reason: str = ""
    keep: bool = True
    """Whether to keep this for equal jobs: not for time-outs and unknown, which may end otherwise."""


def unknown(reason: str) -> Checked:
    """The verifier could not decide."""
    return Checked("unknown", printable(reason), keep=False)


def used(what: str, cpu: float, memory: int) -> Checked:
    """A proof that was ended because it used too much of something; whatever else ended it (`wall`) is not its fault."""
    if what == "cpu":
        return Checked("timeout", f"used more than {cpu:g} s of CPU time", keep=False)
    reasons = {"memory": f"used more than {memory // 2**20} MiB of memory", "output": "wrote too much", "stack": "Lean ran out of stack"}
    return Checked("other", reasons[what], keep=False) if what in reasons else unknown("the verifier got too little CPU time")


def printable(text: str) -> str:
    """One line of at most REASON_CHARS characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:REASON_CHARS]
