"""One attempt of a run, whichever algorithm trains it: lock, ledger, permission, training, files, outcome.

An algorithm is a stage of its own (`stages/train/<algorithm>.py`) that gives this module one function: it trains to the end and
returns the folder that holds the adapter. It may raise anything; the class of the failure is recorded.

Exit 0: the attempt finished, or failed and was recorded (dvc then goes on to the run's siblings and the page shows the hole).
Exit 1: nothing could be recorded, or the disk is full. Exit 130: stopped by a signal; the next `dvc repro` resumes. A signal ends
training at once, and waits while the ledger and the files are written.
"""

from __future__ import annotations

import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from stages.contracts.artifact import read, write
from stages.contracts.attempt import FailureClass, Outcome, Started
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.preflight_card import Permission
from stages.contracts.reward_card import GateCard
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import card_id, open_card
from stages.contracts.train_settings import TrainSettings
from stages.train import interrupts, memory_kills, resume, retries
from stages.train.attempts import Stopped, begin, checkpoints, end, lock, under
from stages.train.checkpoints import copy_adapter, fault, of_ranks, weights, with_batch_size
from stages.train.data import Row, read_rows
from stages.train.environment import prepare, versions
from stages.train.failures import classify
from stages.train.going_on import begins_at, so_far, with_microbatch
from stages.train.ranks import rank
from stages.train.recorder import Journal, write_completions, write_history
from stages.train.rewards.compose import sandbox
from stages.train.scoring import gate_modules
from stages.train.stopping import Stopping

S = TypeVar("S", bound=TrainSettings)


@dataclass(frozen=True)
class Work(Generic[S]):
    """What an algorithm trains with."""

    run: RunFolder
    card: TrainCard[S]
    rows: list[Row]
    journal: Journal
    started: Started
    output: Path
    """Where checkpoints go: `checkpoint-<step>` folders, outside of DVC's outs."""
    checkpoint: tuple[Path, int] | None
    """The newest complete checkpoint and its step; null: from the start."""
    stopping: Stopping
    """Show it each logged step, after the journal has it. Where it says so, save a checkpoint of the step and end."""
    said: dict[str, str] = field(default_factory=dict)
    """What the algorithm has the ledger say at the end of the attempt: `generation`."""

    @property
    def name(self) -> str:
        return f"{self.card.experiment} {self.run.name}"

    @property
    def steps_before(self) -> int:
        """Steps that are done already."""
        return self.checkpoint[1] if self.checkpoint else 0


Fit = Callable[[Work[S]], Path]


def attempt(folder: Path, kind: type[TrainCard[S]], module: str, fit: Fit[S], checkpoint_files: Sequence[str]) -> int:
    """One attempt of a run: train or resume with `fit`, then write history, completions, adapter and outcome. A checkpoint without
    the weights or one of `checkpoint_files` is not complete, and no attempt goes on from it. Returns the exit code."""
    run = RunFolder(folder)
    if rank():
        from stages.train.follower import follow

        return follow(run, kind, fit)
    card = open_card(kind, run.card, [module], lambda card: gate_modules(_gates(card)))
    prepare(card.device, card.gpus)
    interrupts.heed()
    with interrupts.held(), lock(run):
        with interrupts.let_in():
            rows = read_rows(card.data, "/data")
        asked = card.reward is not None  # preflight looks at rewards: without one there is nothing to refuse
        place = ExperimentFolder(folder.parent).permission(card.condition)
        permission = read(Permission, place) if asked else Permission(condition=card.condition, train=True)
        checkpoint_files = of_ranks((*checkpoint_files, *weights(card.model.adapter.kind)), card.gpus)
        return _locked(run, card, rows, permission, fit, checkpoint_files, module)


def _locked(
    run: RunFolder, card: TrainCard[S], rows: list[Row], permission: Permission, fit: Fit[S], checkpoint_files: Sequence[str], module: str
) -> int:
    identity = card_id(card)
    scratch = checkpoints(identity)
    before, policy = so_far(run, identity, scratch), retries.policy(ExperimentFolder(run.root.parent).retries)
    key = card.train.microbatch_key
    size: int | None = getattr(card.train, key) if key else None
    changed = retries.change(before, policy, size)
    if before and before[-1].state == "finished":  # dvc asks for a finished run only when its files are gone or the user forces it
        shutil.rmtree(scratch, ignore_errors=True)
    checkpoint = begins_at(scratch / "trainer", checkpoint_files, before, changed)
    manifest = resume.Manifest.now(f"{card.experiment}/{run.name}", identity, card.seed, card.device, versions())
    if checkpoint:
        resume.require(scratch, manifest)
    if checkpoint and size:
        with_batch_size(checkpoint[0], changed.microbatch if changed and changed.microbatch else size)
    journal = Journal(scratch)
    resume.keep(scratch, manifest)
    interrupts.check()
    started = begin(
        run,
        identity,
        devices=_devices(card),
        sandbox=sandbox(_gates(card)),
        resumed_from=checkpoint[1] if checkpoint else None,
        changed=changed,
    )
    if changed:
        print(f"{run.root}: attempt {started.number} after {changed.failure.replace('_', ' ')}: {retries.words(changed)}", flush=True)
    begun = time.monotonic()
    failure: FailureClass | None = None
    error: str | None = None
    adapter: Path | None = None
    said: dict[str, str] = {}
    stopping = Stopping(card.stop, journal, checkpoint[1] if checkpoint else 0)
    memory_kills.watch(scratch, started.attempt)
    try:
        if not permission.train:
            raise Stopped("refused", "; ".join(permission.reasons))
        work = Work(run, with_microbatch(card, changed), rows, journal, started, scratch / "trainer", checkpoint, stopping, said)
        with interrupts.let_in():
            adapter = _trained(work, fit)
    except (Exception, KeyboardInterrupt) as caught:
        failure, error = classify(caught)
        if failure == "bug":
            (scratch / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
            error = f"{error} (traceback: {scratch / 'traceback.txt'})"
    stopped = stopping.stopped if failure is None else None
    reached = max(journal.last_step(started.attempt), checkpoint[1] if checkpoint else 0)
    steps = stopped.step if stopped else min(reached, card.train.max_steps)
    if failure is None and stopped is None and steps < card.train.max_steps:
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
        stopped=stopped,
    )
    try:
        _write(run, card, journal, adapter, outcome)
    except OSError as caught:
        failure, error = classify(caught)
        end(run, started, failure=failure, error=error, last_step=steps, seconds=time.monotonic() - begun)
        raise
    end(
        run,
        started,
        failure=failure,
        error=error,
        last_step=steps,
        seconds=time.monotonic() - begun,
        stopped=stopped,
        generation=said.get("generation"),
    )
    if stopped:
        print(f"\n{run.root}: stopped by {stopped.rule} at step {stopped.step} of {card.train.max_steps}: {stopped.says}", flush=True)
    if failure is None:
        shutil.rmtree(scratch, ignore_errors=True)
        return 0
    print(f"\n{run.root}: attempt {started.number} failed ({failure}) after step {steps}: {error}", file=sys.stderr)
    tried = retries.tried()
    why_not = retries.refusal(under(run, identity), policy, size, tried)
    if why_not is None and interrupts.told() is None:
        retries.again(module, run.root, tried)
    if why_not:
        print(f"{run.root}: not tried again by itself: {why_not}", file=sys.stderr)
    if failure == "interrupted":  # by us; another rank that was killed alone is recorded, and the runs beside it go on
        return 130 if interrupts.told() is not None else 0
    return 1 if failure == "disk" else 0


def _trained(work: Work[S], fit: Fit[S]) -> Path:
    """Folder of the checkpoint that holds the adapter, which is looked at once more: it may be of an attempt that was killed."""
    steps = work.card.train.max_steps
    if work.checkpoint and (work.steps_before >= steps or work.stopping.stopped):  # killed while finishing, or after a rule had stopped it:
        folder = work.checkpoint[0]  # resuming would train one step too many
    else:
        resumed = f", resumed from step {work.steps_before}" if work.checkpoint else ""
        print(f"{work.name}: {work.card.train.algorithm.upper()}, {steps} steps, {_teacher(work.card)}{resumed}", flush=True)
        folder = fit(work)
    found = fault(folder, work.journal.moved())
    if found:
        raise Stopped(*found)
    return folder


def _write(run: RunFolder, card: TrainCard[S], journal: Journal, adapter: Path | None, outcome: Outcome) -> None:
    names = [gate.name for gate in _gates(card)]
    identity = {"card_id": outcome.card_id, "attempt": outcome.attempt}
    write_history(run.history, journal.history_rows(), **identity)
    write_completions(run.completions, journal.completion_rows(), names, **identity)
    shutil.rmtree(run.adapter, ignore_errors=True)
    run.adapter.mkdir()
    if adapter:
        copy_adapter(adapter, run.adapter)
    write(run.outcome, outcome)


def _gates(card: TrainCard[S]) -> tuple[GateCard, ...]:
    return card.reward.gates if card.reward is not None else ()


def _teacher(card: TrainCard[S]) -> str:
    return f"reward {card.reward.name}" if card.reward is not None else f"gold answers under `{card.data.answer}`"


def _devices(card: TrainCard[S]) -> tuple[str, ...]:
    if card.device == "cpu":
        return ("cpu",)
    import torch

    return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
