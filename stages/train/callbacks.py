"""What listens to the trainer: the recorder of our history. Imported late, transformers is slow to load."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_model, save_model
from transformers import TrainerCallback

from stages.contracts.training import GroupedSettings
from stages.train import interrupts
from stages.train.guards import InvalidLogits, NonfiniteGuard
from stages.train.progress import Progress
from stages.train.ranks import from_first, gathered
from stages.train.recorder import Cell, cell
from stages.train.resume import REFERENCE
from stages.train.run import Work
from stages.train.scoring import TrainingReward, with_prompts
from stages.train.tracking import Tracked

RENAMED = {"step_time": "step_seconds"}
DROPPED = {"reward", "epoch", "num_tokens", "completions/mean_length", "completions/clipped_ratio", "total_flos"}
"""Logged by TRL under another meaning, or measured by ourselves in TrainingReward."""


class Clock:
    """Wall seconds inside of the function that it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its time counted. Its result must be complete when it returns: a GPU may still be working."""

        def timed(*arguments: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - begun

        return timed

    def taken(self) -> float:
        """The seconds since the last time they were taken."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class KeptReference(TrainerCallback):  # type: ignore[misc]
    """Saves a reference model that moves with each checkpoint: TRL would begin again with the untrained one after a resume."""

    def __init__(self, reference: Any, checkpoint: tuple[Path, int] | None) -> None:
        self.reference = reference
        if checkpoint is not None:
            load_model(reference, checkpoint[0] / REFERENCE)

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        save_model(self.reference, str(Path(args.output_dir) / f"checkpoint-{state.global_step}" / REFERENCE))


class HistoryRecorder(TrainerCallback):  # type: ignore[misc]
    """Writes one journal line for each logged step: our own metrics first, then everything TRL logged. Then the stop rules look.

    The time of a step is measured here, from its begin to its log, the optimizer included (TRL's own `step_time` ends before it). A
    trainer without `on_step_begin` logs the time itself. `clock` measures sampling. `tokens_before`: those of the steps before a
    resume, for a trainer that counts from its own start. `tracker`: a W&B run that gets all that is logged.
    """

    def __init__(
        self,
        work: Work[Any],
        guard: NonfiniteGuard,
        reward: TrainingReward | None,
        logits: InvalidLogits | None,
        clock: Clock | None,
        tokens_before: int,
        tracker: Tracked | None,
    ) -> None:
        self.work, self.guard, self.reward, self.logits, self.clock, self.tokens_before = work, guard, reward, logits, clock, tokens_before
        self.tracker = tracker
        self.progress = Progress(work.name, work.started.number, work.card.train.max_steps, begin_at=work.steps_before)
        self.begun = time.monotonic()
        self.step_begun: float | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.step_begun = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any) -> None:
        if not logs or "loss" not in logs:  # the trainer's closing line sums only the steps since a resume
            if self.tracker is not None:
                self.tracker.log(state.global_step, logs or {}, {})
            return
        invalid = sum(gathered([self.logits.taken()])) if self.logits is not None else None
        if from_first(lambda: self._record(state.global_step, logs, invalid) or self._is_to_save(state.global_step)):
            control.should_save = True  # the trainer saves after it has logged, then looks whether to stop
            control.should_training_stop = True
        if not interrupts.is_to_save():
            interrupts.check()

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if from_first(lambda: self._is_to_save(state.global_step)):  # SIGTERM came while this checkpoint was written
            control.should_training_stop = True

    def _is_to_save(self, step: int) -> bool:
        """Whether SIGTERM has come and an attempt that goes on from this step ends as if it had not: some steps train on completions that
        the step before them has sampled, and no checkpoint holds these."""
        settings = self.work.card.train
        micro_steps = settings.micro_steps if isinstance(settings, GroupedSettings) else settings.gradient_accumulation_steps
        return interrupts.is_to_save() and step * settings.gradient_accumulation_steps % micro_steps == 0

    def _record(self, step: int, logs: dict[str, Any], invalid: int | None) -> bool:
        """Record the step and return whether a rule ends the run here. Of several ranks the first one does this."""
        cells: dict[str, Cell] = self.reward.pending.pop(step, {}) if self.reward else {}
        for name, value in logs.items():
            if name not in DROPPED and not name.startswith("rewards/"):
                cells[RENAMED.get(name, name)] = cell(value)
        cells["skipped"] = float(self.guard.skipped and not logs.get("optimizer_steps"))  # one of an update's steps is counted apart
        self.guard.skipped = False
        if invalid is not None:
            cells["invalid_logits"] = float(invalid)
        if self.step_begun is not None:
            cells["step_seconds"] = cell(time.perf_counter() - self.step_begun)
        if self.clock is not None:
            cells["generation_seconds"] = cell(self.clock.taken())
            whole, *parts = (cells.get(f"{part}_seconds") for part in ("step", "generation", "reward"))
            known = [part for part in parts if isinstance(part, float)]  # a step that reuses completions has sampled and scored none
            cells["update_seconds"] = max(0.0, whole - sum(known)) if isinstance(whole, float) else None
        tokens = logs.get("num_tokens")
        self.work.journal.step(
            attempt=self.work.started.attempt,
            step=step,
            tokens=self.tokens_before + int(tokens) if tokens is not None else None,
            seconds=time.monotonic() - self.begun,
            cells=cells,
            in_a_row=self.guard.in_a_row,
        )
        if self.tracker is not None:  # TRL's own callback for W&B ends training with any error of it
            self.tracker.log(step, logs, cells)
            if self.tracker.shows_completions(step):
                self.tracker.completions(step, self._completions(step))
        self.progress.step(step, cells)
        return self.work.stopping.see(step, cells)

    def _completions(self, step: int) -> list[dict[str, Any]]:
        """Completions of the step with their prompts; none where it sampled none."""
        latest, rows = self.reward.latest if self.reward else (0, [])
        card, named = self.work.card, {row["prompt_id"] for row in rows}
        prompts = [row for row in self.work.rows if row["id"] in named]
        return with_prompts(rows, prompts, card.data, card.model) if latest == step else []
