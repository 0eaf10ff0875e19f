"""This machine: tasks over its GPUs and cores. One loop and no threads, as the signal that ends workers with this process is a thread's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType

from compiler.problems import Rejected, problem
from compiler.running import busy, locks
from compiler.running.batch import Batch, Task, batch_file, is_claimed, state
from compiler.running.machines import LocalMachine
from compiler.running.schedule import longest_first
from compiler.running.show import Screen
from compiler.running.slots import Lease, Slot, gpus, places, take, threads
from compiler.running.worker import CRASHES, HANDLED, KEPT, SLOT, STOPPED, end_with
from stages.contracts.layout import RUNS, ExperimentFolder
from stages.train.attempts import holder
from stages.train.verifiers.verifier import SHARES

KILLED_AGAIN = 2
"""How often a task begins again whose processes something else than octavo has killed."""
LOOK_SECONDS = 0.2


class Interrupted(Exception):
    """A signal came, and all that ran has ended in order."""


@dataclass
class _Job:
    """A task, and its worker while it has one."""

    batch: Batch
    index: int
    task: Task
    process: subprocess.Popen[bytes] | None = None
    leases: list[Lease] = field(default_factory=list)
    killed: int = 0


class Local:
    """Implements Machine."""

    def __init__(self, name: str, settings: LocalMachine) -> None:
        self.name, self.settings = name, settings
        self._signals = 0

    def slots(self, on_gpu: bool) -> list[Slot]:
        """GPUs, or what runs without GPUs share."""
        return gpus() if on_gpu else places(self.settings.slots)

    def check(self, work: Mapping[str, Sequence[Task]]) -> None:
        wanted = max((task.gpus for tasks in work.values() for task in tasks), default=0)
        here = len(gpus()) if wanted else 0
        if wanted > here:
            raise Rejected([problem("E502", gpus=wanted, here=here or "none")])

    def capacity(self, gpus: int) -> int | None:
        return len(self.slots(gpus > 0)) // max(1, gpus)

    def prepare(self, stages: Mapping[str, Sequence[str]], names: Sequence[str], on_gpu: bool) -> bool:
        for folder, targets in stages.items():
            if repro("--cd", folder, targets=targets):
                raise Rejected([problem("E502.before", folder=folder, stages=list(targets))])
        return True

    def finish(self, targets: Sequence[str], names: Sequence[str], on_gpu: bool) -> int:
        return repro(targets=targets)

    def submit(self, batches: Sequence[Batch], names: Sequence[str], on_gpu: bool) -> bool:
        """Raises Interrupted when a signal came: what ran has ended in order then."""
        jobs = [_Job(batch, index, task) for batch in batches for index, task in enumerate(batch.tasks)]
        waiting = [jobs[index] for index in longest_first([(job.task.hours, job.task.gpus) for job in jobs])]
        running: list[_Job] = []
        for on_gpu in {job.task.gpus > 0 for job in jobs}:
            count = sum((job.task.gpus > 0) == on_gpu for job in jobs)
            kind = "GPUs" if on_gpu else f"slots of {threads()} {'thread' if threads() == 1 else 'threads'}"
            print(f"{count} {'run' if count == 1 else 'runs'} on {len(self.slots(on_gpu))} {kind}", flush=True)
        screen = Screen()
        before = {number: signal.signal(number, self._stop) for number in HANDLED}
        try:
            while running or (waiting and not self._signals):
                waiting = [job for job in waiting if not job.batch.cancelled(job.task.run).exists()]
                if not self._signals:
                    self._start(waiting, running)
                elif self._signals == 1:
                    self._signals = 2
                    for job in running:
                        if job.process is not None:
                            job.process.terminate()
                for job in [job for job in running if job.process is not None and job.process.poll() is not None]:
                    running.remove(job)
                    if self._begins_again(job):
                        waiting.insert(0, job)
                screen.show(batches, {batch.experiment: _words(batch, waiting, running) for batch in batches})
                time.sleep(LOOK_SECONDS)
            screen.show(batches, {}, is_last=True)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._signals:
            raise Interrupted
        return True

    def _start(self, waiting: list[_Job], running: list[_Job]) -> None:
        """Begin tasks while there are slots. One that needs several GPUs is not passed by smaller ones, which would never let it in."""
        full: set[bool] = set()
        for job in list(waiting):
            on_gpu = job.task.gpus > 0
            if on_gpu in full or _holder(job) == "here":
                continue
            leases = take(self.slots(on_gpu), max(1, job.task.gpus))
            if not leases:
                full.add(on_gpu)
                continue
            waiting.remove(job)
            job.leases, job.process = leases, self._worker(job, leases)
            running.append(job)

    def _begins_again(self, job: _Job) -> bool:
        """Give its slots back. True for a task whose processes were killed by something else than us."""
        for lease in job.leases:
            lease.give_back()
        assert job.process is not None
        code = job.process.returncode
        killed = -code if code < 0 else code - 128 if code > STOPPED else 0
        if code == 1 and _holder(job) == "here" and not self._signals:  # somebody began to train it a moment before us (S210)
            return True
        if not killed or killed in CRASHES or self._signals or job.batch.cancelled(job.task.run).exists():
            return False
        job.killed += 1
        return job.killed <= KILLED_AGAIN

    def _worker(self, job: _Job, leases: Sequence[Lease]) -> subprocess.Popen[bytes]:
        devices = ",".join(lease.slot.device for lease in leases)
        descriptors = [lease.descriptor for lease in leases]
        own = {SLOT: devices or leases[0].slot.name, KEPT: ",".join(map(str, descriptors)), SHARES: str(self.capacity(job.task.gpus))}
        own |= {"CUDA_VISIBLE_DEVICES": devices} if devices else {}
        return subprocess.Popen(
            [sys.executable, "-m", "compiler.running.worker", batch_file(job.batch.experiment).as_posix(), str(job.index)],
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches us alone
            pass_fds=descriptors,
            preexec_fn=end_with(os.getpid()),
        )

    def states(self, batch: Batch) -> Mapping[str, str]:
        return {task.run: "waiting" for task in batch.tasks if is_claimed(batch.experiment) and state(batch, task.run) is None}

    def cancel(self, batch: Batch, runs: Sequence[str]) -> None:
        for run in runs:  # those that wait are left out by the loop above, which sees the markers
            worker = state(batch, run)
            if worker is not None and (process := worker.process()) is not None:
                process.terminate()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._signals = self._signals or 1


def _words(batch: Batch, waiting: Sequence[_Job], running: Sequence[_Job]) -> Mapping[str, str]:
    """Of tasks whose worker has written nothing yet."""
    began = {job.task.run: "starts" for job in running if job.batch is batch and state(batch, job.task.run) is None}
    return {**began, **{job.task.run: "waiting" for job in waiting if job.batch is batch}}


def _holder(job: _Job) -> str | None:
    return holder(ExperimentFolder(RUNS / job.batch.experiment).run(job.task.run))


def repro(*options: str, targets: Sequence[str] = ()) -> int:
    """Exit code of `dvc repro`, with stages that start in the environment of this Python; 130 when a signal ended it. Ctrl-C reaches DVC
    itself, which ends in order; other signals are passed on."""
    busy.repair()
    locks.restore()
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *options, "repro", *targets]
    signals: list[int] = []
    before = {number: signal.signal(number, lambda given, _: signals.append(given)) for number in HANDLED}
    try:
        with locks.kept():
            dvc = subprocess.Popen(command, env={**os.environ, "PATH": path}, preexec_fn=end_with(os.getpid()))
            while (code := dvc.poll()) is None:
                if any(number != signal.SIGINT for number in signals):
                    dvc.terminate()
                time.sleep(LOOK_SECONDS)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return STOPPED if signals else code
