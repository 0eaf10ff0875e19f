"""One attempt of a run, whichever algorithm trains it: lock, ledger, permission, training, files, outcome.

An algorithm is a stage of its own (`stages/train/<stage>.py`) that gives this module one function: it trains to the end and returns the
folder that holds the adapter. It may raise anything; the class of the failure is recorded.

Exit 0: the attempt finished, or failed and was recorded (dvc then goes on to the run's siblings and the page shows the hole).
Exit 1: nothing could be recorded, or the disk is full. Exit 130: stopped by a signal; the next `dvc repro` resumes. A signal ends
training at once, and waits while the ledger and the files are written.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from stages.contracts.artifact import read, write
from stages.contracts.attempt import FailureClass, Outcome, Started, StoppedBy
from stages.contracts.files import make_folder, write_text
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.preflight_card import Permission
from stages.contracts.retries import NONE, Retries
from stages.contracts.reward import Gate
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import TRIED, card_id, open_card, print_text, replace
from stages.contracts.stops import StopRules
from stages.contracts.training import TrainSettings
from stages.rules import Watch
from stages.train import interrupts, resume
from stages.train.attempts import Stopped, begin, checkpoints, classify, end, exit_code, lock, under
from stages.train.data import Row, read_rows
from stages.train.environment import prepare
from stages.train.recorder import Cell, Journal, write_completions, write_history
from stages.train.rewards.compose import sandbox
from stages.train.scoring import gate_modules, with_prompts

S = TypeVar("S", bound=TrainSettings)


class Stopping:
    """The stop rules of a run. A trainer shows each logged step and ends when a rule says so. The state of the rules comes from the
    journal, so an attempt that resumes goes on where the last one was.

    `done`: steps that lie behind the attempt. `stopped` is set when a rule ends the run, also when it had done so before.
    """

    def __init__(self, stop: StopRules | None, journal: Journal, done: int) -> None:
        self.stopped: StoppedBy | None = None
        self._watch = Watch(stop) if stop is not None else None
        for step, cells in journal.steps(until=done) if stop is not None else []:
            self.see(step, cells)

    def see(self, step: int, cells: Mapping[str, Cell]) -> bool:
        """One logged step. True: save a checkpoint of it and train no further."""
        firing = self._watch.see(step, cells) if self._watch is not None else None
        if firing is not None:
            self.stopped = StoppedBy(rule=firing.rule, step=step, says=f"{firing.quantity} is {firing.value:.4g}")
        return firing is not None


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
    notes: dict[str, str] = field(default_factory=dict)
    """What the algorithm adds to the end of the attempt in the ledger: `generation`, `determinism`."""

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
    run, experiment = RunFolder(folder), ExperimentFolder(folder.parent)
    card = open_card(kind, run.card, [module], lambda card: gate_modules(gates(card)))
    prepare(card.device, card.gpus)
    interrupts.install_handlers()
    with interrupts.deferred(), lock(run):
        with interrupts.interruptible():
            rows = read_rows(card.data)
        permission = Permission(condition=card.condition, train=True)
        if card.reward is not None:  # preflight looks at rewards: without one there is nothing to refuse
            permission = read(Permission, experiment.permission(card.condition))
        policy = read(Retries, experiment.retries) if experiment.retries.exists() else NONE
        work = _begin(run, card, rows, resume.required_files(checkpoint_files, card), policy)
        begun = time.monotonic()
        adapter, outcome = _train(work, fit, permission)
        _record(work, adapter, outcome, time.monotonic() - begun)
        return _exit_code(work, outcome, policy, module)


def _begin(run: RunFolder, card: TrainCard[S], rows: list[Row], files: Sequence[str], policy: Retries) -> Work[S]:
    """Decide from what and with which change the attempt goes on, and write its start into the ledger."""
    identity = card_id(card)
    scratch, before = checkpoints(identity), under(run, identity)
    size = _microbatch(card)
    changed = resume.change(before, policy, size)
    if before and before[-1].state == "finished":  # dvc asks for a finished run only when its files are gone or the user forces it
        shutil.rmtree(scratch, ignore_errors=True)
    checkpoint = resume.begins_at(scratch / "trainer", files, before, changed)
    if checkpoint and size:
        resume.with_batch_size(checkpoint[0], changed.microbatch if changed and changed.microbatch else size)
    journal = Journal(scratch)
    resume.keep(scratch)
    interrupts.check()
    done = checkpoint[1] if checkpoint else None
    started = begin(run, identity, devices=devices(card), sandbox=sandbox(gates(card)), resumed_from=done, changed=changed)
    if changed:
        changes = changed.model_dump(include={"microbatch", "resume", "restart_verifier"}, exclude_defaults=True)
        words = ", ".join(f"{name} {value}" for name, value in changes.items()).replace("_", " ")
        print_text(f"{run.root}: attempt {started.number} after {changed.failure.replace('_', ' ')}: {words}")
    stopping = Stopping(card.stop, journal, done or 0)
    return Work(run, resume.with_microbatch(card, changed), rows, journal, started, scratch / "trainer", checkpoint, stopping)


def _train(work: Work[S], fit: Fit[S], permission: Permission) -> tuple[Path | None, Outcome]:
    """Train to the end, or to a failure, which is classified. Returns the checkpoint with the adapter, and how the attempt ended."""
    target, started = work.card.train.max_steps, work.started
    adapter: Path | None = None
    failure: FailureClass | None = None
    error: str | None = None
    try:
        if not permission.train:
            raise Stopped("refused", "; ".join(permission.reasons))
        with interrupts.interruptible():
            adapter = _trained(work, fit)
    except (Exception, KeyboardInterrupt) as caught:
        failure, error = classify(caught)
        if failure == "bug":
            path = work.journal.history.parent / "traceback.txt"
            write_text(path, traceback.format_exc().encode("utf-8", "backslashreplace").decode())
            error = f"{error} (traceback: {path})"
    stopped = work.stopping.stopped if failure is None else None
    steps = stopped.step if stopped else min(max(work.journal.last_step(started.attempt), work.steps_before), target)
    if failure is None and stopped is None and steps < target:
        adapter, failure, error = None, "bug", f"the trainer ended after {steps} of {target} steps"
    identity = {"card_id": started.card_id, "attempt": started.attempt}
    progress = {"finished": failure is None, "steps_done": steps, "target_steps": target}
    return adapter, Outcome(**identity, **progress, failure=failure, error=error, stopped=stopped)


def _trained(work: Work[S], fit: Fit[S]) -> Path:
    """Folder of the checkpoint that holds the adapter, which is checked: it may be of an attempt that was killed."""
    card, steps = work.card, work.card.train.max_steps
    if work.checkpoint and (work.steps_before >= steps or work.stopping.stopped):  # killed while finishing, or after a rule had stopped it:
        folder = work.checkpoint[0]  # resuming would train one step too many
    else:
        resumed = f", resumed from step {work.steps_before}" if work.checkpoint else ""
        teacher = f"reward {card.reward.name}" if card.reward is not None else f"gold answers under `{card.data.answer}`"
        print_text(f"{work.name}: {card.train.algorithm.upper()}, {steps} steps, {teacher}{resumed}")
        folder = fit(work)
    resume.check_weights(folder, work.journal.has_gradients())
    return folder


def _record(work: Work[Any], adapter: Path | None, outcome: Outcome, seconds: float) -> None:
    """Write the files of the run and the end of the attempt. Raises OSError when the files cannot be written; the ledger then says so."""
    run, started = work.run, work.started
    identity = {"card_id": started.card_id, "attempt": started.attempt}
    try:
        write_history(run.history, work.journal.history_rows(), **identity)
        completions = with_prompts(work.journal.completion_rows(), work.rows, work.card.data, work.card.model)
        write_completions(run.completions, completions, [gate.name for gate in gates(work.card)], **identity)
        shutil.rmtree(run.adapter, ignore_errors=True)
        make_folder(run.adapter)
        if adapter:
            resume.copy_adapter(adapter, run.adapter)
        write(run.outcome, outcome)
    except OSError as caught:
        failure, error = classify(caught)
        end(run, started, outcome.model_copy(update={"finished": False, "failure": failure, "error": error, "stopped": None}), seconds)
        raise
    end(run, started, outcome, seconds, **work.notes)


def _exit_code(work: Work[Any], outcome: Outcome, policy: Retries, module: str) -> int:
    """Say how the attempt ended, and try again where the policy wants it: then this does not return."""
    run, stopped, failure = work.run, outcome.stopped, outcome.failure
    if failure is None:
        if stopped:
            print_text(f"\n{run.root}: stopped by {stopped.rule} at step {stopped.step} of {outcome.target_steps}: {stopped.says}")
        shutil.rmtree(work.journal.history.parent, ignore_errors=True)
        return 0
    number = work.started.number
    print_text(f"\n{run.root}: attempt {number} failed ({failure}) after step {outcome.steps_done}: {outcome.error}", is_error=True)
    tried = int(os.environ.get(TRIED) or 0) + 1
    why_not = resume.why_not_again(under(run, work.started.card_id), policy, _microbatch(work.card), tried)
    if why_not is None and interrupts.received() is None:
        replace([sys.executable, "-m", module, run.root.as_posix()], {**os.environ, TRIED: str(tried)})
    if why_not:
        print_text(f"{run.root}: not tried again by itself: {why_not}", is_error=True)
    return exit_code(failure)


def _microbatch(card: TrainCard[Any]) -> int | None:
    key = card.train.microbatch_key
    return getattr(card.train, key) if key else None


def gates(card: TrainCard[Any]) -> tuple[Gate, ...]:
    """Gates of a run's reward; none where it has no reward."""
    return card.reward.gates if card.reward is not None else ()


def devices(card: TrainCard[Any]) -> tuple[str, ...]:
    """Names of what trains, as the ledger keeps them."""
    if card.device == "cpu":
        return ("cpu",)
    import torch

    return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
