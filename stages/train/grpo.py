"""Stage: train one run with GRPO (TRL) and a LoRA adapter.

    python -m stages.train.grpo runs/<experiment>/<run>

Exit 0: the attempt finished, or failed and was recorded (dvc then goes on to the run's siblings and the page shows the hole).
Exit 1: nothing could be recorded, or the disk is full. Exit 130: stopped by a signal; the next `dvc repro` resumes.
"""

from __future__ import annotations

import shutil
import sys
import time
import traceback
from pathlib import Path

from stages.contracts.artifact import read, write
from stages.contracts.attempt import FailureClass, Outcome, Started
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.preflight_card import Permission
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import card_id, main, open_card
from stages.train.attempts import Stopped, begin, checkpoints, classify, end, latest, lock
from stages.train.checkpoints import copy_adapter, newest
from stages.train.data import Row, read_rows
from stages.train.environment import end_with_parent, prepare
from stages.train.model import load_base
from stages.train.progress import Progress
from stages.train.recorder import Journal, write_completions, write_history
from stages.train.rewards.compose import sandbox
from stages.train.scoring import TrainingReward, gate_modules
from stages.train.tracking import tracked

MODULE = "stages.train.grpo"


def train(folder: Path) -> int:
    """One attempt of a run: train or resume, then write history, completions, adapter and outcome."""
    run = RunFolder(folder)
    card = open_card(TrainCard, run.card, [MODULE], lambda card: gate_modules(card.reward.gates))
    prepare(card.device)
    end_with_parent()
    with lock(run):
        rows = read_rows(card.data, "/data")
        permission = read(Permission, ExperimentFolder(folder.parent).permission(card.condition))
        return _attempt(run, card, rows, permission)


def _attempt(run: RunFolder, card: TrainCard, rows: list[Row], permission: Permission) -> int:
    identity = card_id(card)
    scratch = checkpoints(identity)
    last = latest(run, identity)
    if last and last.state == "finished":  # dvc asks for a finished run only when its files are gone or the user forces it
        shutil.rmtree(scratch, ignore_errors=True)
    checkpoint = newest(scratch / "trainer")
    journal = Journal(scratch)
    started = begin(
        run, identity, devices=_devices(card), sandbox=sandbox(card.reward.gates), resumed_from=checkpoint[1] if checkpoint else None
    )
    begun = time.monotonic()
    failure: FailureClass | None = None
    error: str | None = None
    try:
        if not permission.train:
            raise Stopped("refused", "; ".join(permission.reasons))
        adapter = _fit(run, card, rows, journal, started, checkpoint)
    except (Exception, KeyboardInterrupt) as caught:
        failure, error = classify(caught)
        if failure == "bug":
            (scratch / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
            error = f"{error} (traceback: {scratch / 'traceback.txt'})"
        adapter = None
    steps = min(journal.last_step(), card.train.max_steps)
    if failure is None and steps < card.train.max_steps:
        failure, error = "bug", f"the trainer ended after {steps} of {card.train.max_steps} steps"
        adapter = None
    outcome = Outcome(
        card_id=identity,
        attempt=started.attempt,
        finished=failure is None,
        steps_done=steps,
        target_steps=card.train.max_steps,
        failure=failure,
        error=error,
    )
    try:
        _write(run, card, journal, adapter, outcome)
    except OSError as caught:
        failure, error = classify(caught)
        end(run, started, failure=failure, error=error, last_step=steps, seconds=time.monotonic() - begun)
        raise
    end(run, started, failure=failure, error=error, last_step=steps, seconds=time.monotonic() - begun)
    if failure is None:
        shutil.rmtree(scratch, ignore_errors=True)
        return 0
    print(f"\n{run.root}: attempt {started.number} failed ({failure}) after step {steps}: {error}", file=sys.stderr)
    return {"interrupted": 130, "disk": 1}.get(failure, 0)


def _fit(run: RunFolder, card: TrainCard, rows: list[Row], journal: Journal, started: Started, checkpoint: tuple[Path, int] | None) -> Path:
    """Train to the end and return the folder that holds the adapter."""
    steps = card.train.max_steps
    if checkpoint and checkpoint[1] >= steps:  # killed while finishing: resuming would train one step too many
        return checkpoint[0]
    resumed = f", resumed from step {checkpoint[1]}" if checkpoint else ""
    print(f"{card.experiment} {run.name}: GRPO, {steps} steps, reward {card.reward.name}{resumed}", flush=True)

    from stages.train.callbacks import HistoryRecorder
    from stages.train.guards import NonfiniteGuard, adapter_change, adapter_state, policy_finite
    from stages.train.trainer import grpo_trainer

    model, tokenizer = load_base(card.model, card.device, bf16=card.train.bf16)
    reward = TrainingReward(
        card.reward,
        rows={row["id"]: row for row in rows},
        seed=card.seed,
        group=card.train.num_generations,
        ends={tokenizer.eos_token_id, tokenizer.pad_token_id},
        journal=journal,
        attempt=started.attempt,
    )
    guard = NonfiniteGuard(card.train.guards)
    progress = Progress(f"{card.experiment} {run.name}", started.number, steps, begin_at=checkpoint[1] if checkpoint else 0)
    with tracked(card, experiment=card.experiment, group=card.condition, name=run.name, attempt=started.attempt) as report_to:
        trainer = grpo_trainer(
            card,
            model,
            tokenizer,
            rows,
            reward=reward,
            callbacks=[guard, HistoryRecorder(journal, reward, guard, progress, started.attempt)],
            output=checkpoints(started.card_id) / "trainer",
            report_to=report_to,
        )
        start = adapter_state(trainer.model)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint[0]) if checkpoint else None)
        except RuntimeError:  # sampling from a policy of NaNs raises; the policy itself tells whether that is what happened
            adapter_change(start, trainer.model)
            if not policy_finite(trainer.model, tokenizer, rows[0][card.data.prompt]):
                raise Stopped("nonfinite", f"the policy's logits are not finite after step {trainer.state.global_step}") from None
            raise
    change = adapter_change(start, trainer.model)
    if change == 0.0 and _moved(journal, started.attempt):
        raise Stopped("bug", "gradients were not zero and no weight of the adapter changed: the adapter is not connected")
    saved = newest(checkpoints(started.card_id) / "trainer")
    if saved is None or saved[1] != steps:
        raise Stopped("bug", f"no complete checkpoint of step {steps}")
    return saved[0]


def _moved(journal: Journal, attempt: str) -> bool:
    """Whether any step of the attempt had a non-zero gradient; with a zero reward none has, and nothing may change."""
    return any(row["metric"] == "grad_norm" and row["value"] for row in journal.history_rows() if row["attempt"] == attempt)


def _write(run: RunFolder, card: TrainCard, journal: Journal, adapter: Path | None, outcome: Outcome) -> None:
    names = [gate.name for gate in card.reward.gates]
    identity = {"card_id": outcome.card_id, "attempt": outcome.attempt}
    write_history(run.history, journal.history_rows(), **identity)
    write_completions(run.completions, journal.completion_rows(), names, **identity)
    shutil.rmtree(run.adapter, ignore_errors=True)
    run.adapter.mkdir()
    if adapter:
        copy_adapter(adapter, run.adapter)
    write(run.outcome, outcome)


def _devices(card: TrainCard) -> tuple[str, ...]:
    if card.device == "cpu":
        return ("cpu",)
    import torch

    return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))


if __name__ == "__main__":
    main(train, "python -m stages.train.grpo runs/<experiment>/<run>")
