"""What an attempt goes on from: the attempts before it, the checkpoint that they left, and the micro-batch that it trains with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from stages.contracts.attempt import Attempt, Changed
from stages.contracts.layout import RunFolder
from stages.contracts.run_card import TrainCard
from stages.contracts.train_settings import TrainSettings
from stages.train import memory_kills, retries
from stages.train.attempts import end, under
from stages.train.checkpoints import newest, newest_finite
from stages.train.recorder import Journal

S = TypeVar("S", bound=TrainSettings)


def so_far(run: RunFolder, identity: str, scratch: Path) -> tuple[Attempt, ...]:
    """The attempts so far. One that the kernel killed for lack of memory left no end behind, so its end is written now."""
    found = under(run, identity)
    last = found[-1] if found else None
    if last is None or last.ended is not None or not memory_kills.killed(scratch, last.started.attempt):
        return found
    name, journal = last.started.attempt, Journal(scratch)
    step = max(journal.last_step(name), last.started.resumed_from or 0)
    error = "killed, and the kernel's count of processes of this control group that it killed for lack of memory has risen meanwhile"
    end(run, last.started, failure="out_of_memory", error=error, last_step=step, seconds=journal.seconds(name))
    return under(run, identity)


def begins_at(folder: Path, needed: Sequence[str], before: Sequence[Attempt], changed: Changed | None) -> tuple[Path, int] | None:
    """What to go on from. After numbers that were not finite only from finite ones, whatever the policy of retries says."""
    last = before[-1].ended if before else None
    if last is None or last.failure != "nonfinite":
        return newest(folder, needed)
    return newest_finite(folder, needed, retries.stuck(before) if changed and changed.resume == "last_finite_checkpoint" else None)


def with_microbatch(card: TrainCard[S], changed: Changed | None) -> TrainCard[S]:
    """The card as this attempt trains it: another micro-batch, and so many more micro-steps that the generation batch is the same."""
    if changed is None or changed.microbatch is None:
        return card
    settings: Any = card.train
    key = settings.microbatch_key
    factor = getattr(settings, key) // changed.microbatch
    update = {key: changed.microbatch, "gradient_accumulation_steps": settings.gradient_accumulation_steps * factor}
    assert changed.microbatch * factor == getattr(settings, key)
    return card.model_copy(update={"train": settings.model_copy(update=update)})
