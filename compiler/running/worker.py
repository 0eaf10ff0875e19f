"""One task, as a process: `python -m compiler.running.worker <batch.json> <index of the task>`, in the project's root.

Each stage of the run is started as dvc.yaml has it, with the code that was frozen for the batch, and handed over to DVC's run cache when it
ends. A signal is passed on to the stage, which ends in order. The run's ledger says what came of each attempt; WorkerState says how this
process stands. Whatever starts a worker gives it GPUs by CUDA_VISIBLE_DEVICES, and its place for people by OCTAVO_SLOT.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import psutil

from compiler.lock.files import Cache, Files
from compiler.running.batch import Batch, Step, Task, WorkerState
from compiler.running.memory import kernel_kills, record_kill
from stages.contracts.artifact import now, read, write
from stages.contracts.files import open_append
from stages.contracts.layout import RunFolder
from stages.train.environment import cluster_job

SLOT, KEPT = "OCTAVO_SLOT", "OCTAVO_KEPT"
"""In a worker's environment: its GPUs or slot, for people; and file descriptors with locks, which its stages hold too until they end."""
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOPPED = 130
"""Exit code of what a signal has stopped in order."""
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""Signals that a process brings upon itself: it would again."""


class Worker:
    """Does one task."""

    def __init__(self, batch: Batch, task: Task) -> None:
        self.batch, self.task = batch, task
        self.child: subprocess.Popen[bytes] | None = None
        self.is_told = False
        self.why = ""
        self.lock = open_append(batch.folder / f"{task.run}.lock")

    def run(self) -> int:
        """Do all steps, and return the exit code of the last one, 128 and more for a signal."""
        for number in HANDLED:
            signal.signal(number, self._pass_on)
        fcntl.flock(self.lock, fcntl.LOCK_EX)  # until an earlier worker of this run, and its stage, are gone
        process = psutil.Process()
        state = WorkerState(
            pid=process.pid,
            created=process.create_time(),
            host=platform.node(),
            job=cluster_job(),
            devices=os.environ.get(SLOT),
            began=now(),
            step=self.task.steps[0].stage,
        )
        code, why = 0, ""
        for step in self.task.steps:
            state = state.model_copy(update={"step": step.stage})
            write(self.batch.state(self.task.run), state)
            code, why = self._step(step)
            if code:
                break
        if self.is_told and code:
            why = self.why_told()
        self.why = why
        write(self.batch.state(self.task.run), state.model_copy(update={"ended": now(), "code": code, "why": why}))
        return code if code >= 0 else 128 - code

    def why_told(self) -> str:
        """Why a signal came, in a word or two."""
        return "cancelled" if self.batch.cancelled(self.task.run).exists() else "stopped"

    def _step(self, step: Step) -> tuple[int, str]:
        """(exit code, why it is no 0)."""
        if self.is_told:
            return STOPPED, ""
        if is_remembered(step):
            return 0, ""
        for out in step.outs:  # as DVC does: what lies there may be a link into its cache, and must not be written through
            if os.path.isdir(out) and not os.path.islink(out):
                shutil.rmtree(out)
            elif os.path.lexists(out):
                os.unlink(out)
        with open_append(self.batch.log(self.task.run)) as log:
            log.write(f"== {step.stage}, {now()}\n".encode())
            log.flush()
            kills = kernel_kills()
            code = self._wait([sys.executable, "-m", step.module, *step.arguments], log.fileno(), self._environment())
            if code == -signal.SIGKILL and kernel_kills() > kills:
                return (code if record_kill(RunFolder(Path(step.arguments[0]))) else 1), "out of memory"
            if code:
                return code, f"was killed by {signal.Signals(-code).name}" if code < 0 else ""
            command = [sys.executable, "-m", "compiler.running.handover", self._folder(), step.stage]
            done = subprocess.run(command, input=json.dumps(step.deps).encode(), stdout=log, stderr=log, start_new_session=True)
            return (done.returncode and 1), "DVC did not take it over: see its log" if done.returncode else ""

    def _wait(self, command: list[str], log: int, environment: dict[str, str]) -> int:
        """Exit code of a stage; negative for a signal. It ends when this process ends, however it ends."""
        kept = tuple(map(int, filter(None, os.environ.get(KEPT, "").split(","))))
        self.child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(*kept, self.lock.fileno()),
            preexec_fn=end_with(os.getpid()),
        )
        if self.is_told:  # between the two
            self.child.send_signal(signal.SIGTERM)
        return self.child.wait()

    def _environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DVC_STAGE")}
        path = os.pathsep.join(filter(None, (self.batch.code, inherited.get("PYTHONPATH", ""))))
        return {**inherited, "OCTAVO_PROGRESS": "json", "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1", "PYTHONPATH": path}

    def _folder(self) -> str:
        return Path(self.task.steps[0].arguments[0]).parent.as_posix()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.is_told = True
        if self.child is not None and self.child.returncode is None:
            self.child.send_signal(signal.SIGTERM)


def is_remembered(step: Step) -> bool:
    """Whether DVC's run cache holds what this stage would write: another worker, or `dvc repro`, has run it since the task was made."""
    files, cache = Files(Path(), {}), Cache(Path())
    deps = {**step.deps, **{dep: files.md5(dep) or "" for dep in step.inputs if dep not in step.deps}}
    record = cache.run(step.command, deps, step.outs)
    return record is not None and all(out in record.outs and cache.holds(record.outs[out].md5) for out in step.outs)


def end_with(parent: int) -> Callable[[], None]:
    """For the child of a process: SIGTERM when that process ends, however it ends. A run that nobody watches would go on beside its next
    attempt. The signal hangs on the thread that starts the child, so that one must live on: the main thread."""

    def ask() -> None:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # 1 = PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it was killed before that line
            os._exit(STOPPED)

    return ask


def main() -> int:
    """Raises ArtifactError when the batch is gone or of another version."""
    batch = read(Batch, Path(sys.argv[1]))
    return Worker(batch, batch.tasks[int(sys.argv[2])]).run()


if __name__ == "__main__":
    raise SystemExit(main())
