"""Retries: from the ledger alone, what the next attempt changes, and whether it begins by itself.

The class of a failure is that of the ledger; a start without an end, or one ended by a signal, is a preemption.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from stages.contracts.attempt import Attempt, Changed
from stages.contracts.retries import Retries
from stages.contracts.stage import TRIED

_RETRIED = ("out_of_memory", "nonfinite", "verifier")
"""Failures after which the same call tries again, when the policy has a rule for them."""


def change(attempts: Sequence[Attempt], policy: Retries, size: int | None) -> Changed | None:
    """What the attempt after these does differently; None for nothing. `attempts` are those under the run's card, `size` is the card's
    micro-batch in completions, None where the algorithm has none. A halved micro-batch stays halved."""
    if not attempts or attempts[-1].state == "finished":
        return None
    last, failure, kept = attempts[-1], _failure(attempts[-1]), _microbatch(attempts[-1])
    update: dict[str, object] = {}
    if failure == "out_of_memory" and policy.out_of_memory and (halved := _half(kept or size)):
        update = {"microbatch": halved}
    elif failure == "nonfinite" and policy.nonfinite:
        update = {"resume": "last_finite_checkpoint"}
    elif failure == "verifier" and policy.verifier:
        update = {"restart_verifier": True}
    elif failure == "preempted" and policy.preempted:
        update = {"resume": "last_checkpoint"}
    if not update and not kept:
        return None
    return Changed(after=last.started.attempt, failure=failure, microbatch=kept).model_copy(update=update)


def stuck(attempts: Sequence[Attempt]) -> int | None:
    """Step of the checkpoint from which the latest attempt did not finish a single step: finite numbers may still be no good."""
    last = attempts[-1] if attempts else None
    if last is None or last.ended is None or last.started.resumed_from is None:
        return None
    return last.started.resumed_from if last.ended.last_step <= last.started.resumed_from else None


def refusal(attempts: Sequence[Attempt], policy: Retries, size: int | None, tried: int) -> str | None:
    """Why the run is not tried again by itself after its latest attempt; None when it is, and an empty text when the policy says nothing
    about it."""
    last = attempts[-1]
    failure, end = _failure(last), last.ended.last_step if last.ended else 0
    if last.state == "finished" or failure not in _RETRIED or not getattr(policy, failure):
        return ""
    if tried >= policy.attempts:
        return f"{tried} attempts in a row failed, and `retries.attempts` is {policy.attempts}"
    batch = _microbatch(last) or size
    if failure == "out_of_memory" and _half(batch) is None:
        return f"a micro-batch of {batch} cannot be halved"
    if len(attempts) > 1 and _signature(attempts[-2]) == _signature(last):
        return f"two attempts failed alike ({failure} after step {end}), changed in the same way"
    return None


def attempts_so_far() -> int:
    """The number of the attempt in this call, from 1."""
    text = os.environ.get(TRIED, "")
    return int(text) + 1 if text.isdigit() else 1


def words(changed: Changed) -> str:
    """A change in a few words."""
    parts = [f"micro-batch {changed.microbatch}"] if changed.microbatch else []
    parts += [changed.resume.replace("_", " ")] if changed.resume else []
    parts += ["new verifiers"] if changed.restart_verifier else []
    return ", ".join(parts)


def _failure(attempt: Attempt) -> str:
    failure = attempt.ended.failure if attempt.ended else None
    return "preempted" if attempt.ended is None or failure == "interrupted" else failure or ""


def _microbatch(attempt: Attempt) -> int | None:
    return attempt.started.changed.microbatch if attempt.started.changed else None


def _half(size: int | None) -> int | None:
    return size // 2 if size is not None and size > 1 and size % 2 == 0 else None


def _signature(attempt: Attempt) -> tuple[object, ...]:
    """Class, step and change: two attempts failed alike when these are equal."""
    changed = attempt.started.changed
    change = changed and (changed.microbatch, changed.resume, changed.restart_verifier)
    return _failure(attempt), attempt.ended and attempt.ended.last_step, change
