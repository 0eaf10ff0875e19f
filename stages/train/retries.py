"""Retries: from the ledger alone, what the next attempt changes, and whether it begins by itself.

The class of a failure is that of the ledger; a start without an end, or one ended by a signal, is a preemption.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from stages.contracts.artifact import read
from stages.contracts.attempt import Attempt, Changed
from stages.contracts.retries import Retries
from stages.contracts.stage import TRIED, replace

_RULES = {"out_of_memory": "halve_microbatch", "nonfinite": "last_finite_checkpoint", "verifier": "restart_verifier"}


def policy(path: Path) -> Retries:
    """The experiment's policy; without a file nothing is tried again by itself. Raises ArtifactError for a broken one."""
    return read(Retries, path) if path.exists() else Retries()


def change(attempts: Sequence[Attempt], of: Retries, size: int | None) -> Changed | None:
    """What the attempt after these does differently; None for nothing. `attempts` are those under the run's card, `size` is the card's
    micro-batch in completions, None where the algorithm has none. A halved micro-batch stays halved."""
    if not attempts or attempts[-1].state == "finished":
        return None
    last = attempts[-1]
    kept = last.started.changed.microbatch if last.started.changed else None
    failure = _failure(last)
    plain = Changed(after=last.started.attempt, failure=failure, microbatch=kept)
    if failure == "out_of_memory" and of.halve_microbatch:
        halved = _half(kept or size)
        return plain.model_copy(update={"microbatch": halved}) if halved else (plain if kept else None)
    if failure == "nonfinite" and of.last_finite_checkpoint:
        return plain.model_copy(update={"resume": "last_finite_checkpoint"})
    if failure == "verifier" and of.restart_verifier:
        return plain.model_copy(update={"restart_verifier": True})
    if failure == "preempted" and of.last_checkpoint:
        return plain.model_copy(update={"resume": "last_checkpoint"})
    return plain if kept else None


def stuck(attempts: Sequence[Attempt]) -> int | None:
    """Step of the checkpoint from which the latest attempt did not finish a single step: finite numbers may still be no good."""
    last = attempts[-1] if attempts else None
    if last is None or last.ended is None or last.started.resumed_from is None:
        return None
    return last.started.resumed_from if last.ended.last_step <= last.started.resumed_from else None


def refusal(attempts: Sequence[Attempt], of: Retries, size: int | None, tried: int) -> str | None:
    """Why the run is not tried again by itself after its latest attempt; None when it is, and an empty text when the policy says nothing
    about it."""
    last = attempts[-1]
    rule = _RULES.get(_failure(last))
    if last.state == "finished" or rule is None or not getattr(of, rule):
        return ""
    if tried >= of.attempts:
        return f"{tried} attempts in a row failed, and `retries.attempts` is {of.attempts}"
    kept = last.started.changed.microbatch if last.started.changed else None
    if rule == "halve_microbatch" and _half(kept or size) is None:
        return f"a micro-batch of {kept or size} cannot be halved"
    if len(attempts) > 1 and _same(attempts[-2], last):
        return (
            f"two attempts failed alike ({_failure(last)} after step {last.ended.last_step if last.ended else 0}), changed in the same way"
        )
    return None


def again(module: str, folder: Path, tried: int) -> None:
    """Take the place of this process with a new attempt. Does not return."""
    replace([sys.executable, "-m", module, folder.as_posix()], {**os.environ, TRIED: str(tried)})


def tried() -> int:
    """The number of the attempt in this call, from 1."""
    text = os.environ.get(TRIED, "")
    return int(text) + 1 if text.isdigit() else 1


def words(of: Changed) -> str:
    """A change in a few words."""
    parts = [f"micro-batch {of.microbatch}"] if of.microbatch else []
    parts += [of.resume.replace("_", " ")] if of.resume else []
    parts += ["new verifiers"] if of.restart_verifier else []
    return ", ".join(parts)


def _failure(of: Attempt) -> str:
    failure = of.ended.failure if of.ended else None
    return "preempted" if of.ended is None or failure == "interrupted" else failure or ""


def _half(size: int | None) -> int | None:
    return size // 2 if size is not None and size > 1 and size % 2 == 0 else None


def _same(one: Attempt, other: Attempt) -> bool:
    """Failed alike: class, step and change; what came before them does not count."""

    def of(attempt: Attempt) -> tuple[object, ...]:
        changed = attempt.started.changed
        made = (changed.microbatch, changed.resume, changed.restart_verifier) if changed else None
        return _failure(attempt), attempt.ended.last_step if attempt.ended else None, made

    return of(one) == of(other)
