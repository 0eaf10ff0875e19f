"""What listens to the trainer: the recorder of our history. Imported late, transformers is slow to load."""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback

from stages.train import interrupts
from stages.train.guards import InvalidLogits, NonfiniteGuard
from stages.train.progress import Progress
from stages.train.recorder import Cell, Journal, cell
from stages.train.scoring import TrainingReward
from stages.train.stopping import Stopping

RENAMED = {"step_time": "step_seconds"}
DROPPED = {"reward", "epoch", "num_tokens", "completions/mean_length", "completions/clipped_ratio", "total_flos"}
"""Logged by TRL under another meaning, or measured by ourselves in TrainingReward."""


class HistoryRecorder(TrainerCallback):  # type: ignore[misc]
    """Writes one journal line for each logged step: our own metrics first, then everything TRL logged. Then the stop rules look."""

    def __init__(
        self,
        journal: Journal,
        reward: TrainingReward,
        guard: NonfiniteGuard,
        progress: Progress,
        attempt: str,
        stopping: Stopping,
        logits: InvalidLogits | None = None,
    ) -> None:
        self.journal, self.reward, self.guard, self.progress, self.attempt = journal, reward, guard, progress, attempt
        self.stopping, self.logits = stopping, logits
        self.begun = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any) -> None:
        if not logs or "loss" not in logs:  # the trainer's closing line sums only the steps since a resume
            return
        step = state.global_step
        cells: dict[str, Cell] = self.reward.pending.pop(step, {})
        for name, value in logs.items():
            if name not in DROPPED and not name.startswith("rewards/"):
                cells[RENAMED.get(name, name)] = cell(value)
        cells["skipped"] = float(self.guard.skipped)
        self.guard.skipped = False
        if self.logits is not None:
            cells["invalid_logits"] = float(self.logits.taken())
        tokens = logs.get("num_tokens")
        self.journal.step(
            attempt=self.attempt,
            step=step,
            tokens=int(tokens) if tokens is not None else None,
            seconds=time.monotonic() - self.begun,
            cells=cells,
            in_a_row=self.guard.in_a_row,
        )
        self.progress.step(step, cells)
        if self.stopping.see(step, cells):
            control.should_save = True  # the trainer saves after it has logged, then looks whether to stop
            control.should_training_stop = True
        interrupts.check()


class Tracker(TrainerCallback):  # type: ignore[misc]
    """Sends logged steps to the W&B run that is open, named as transformers names them. TRL's trainers have their own."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any) -> None:
        import wandb

        wandb.log({f"train/{name}": value for name, value in (logs or {}).items()} | {"train/global_step": state.global_step})
