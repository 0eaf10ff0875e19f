"""One task, as a process: `python -m compiler.running.worker <batch.json> <index of the task>`, in the project's root.

Each stage of the run is started as dvc.yaml has it, with the code that was frozen for the batch, and handed over to DVC's run cache when it
ends. A signal is passed on to the stage, which ends in order. The run's ledger says what came of each attempt; WorkerState says how this
process stands. Whatever starts a worker gives it GPUs by CUDA_VISIBLE_DEVICES, and its place for people by OCTAVO_SLOT.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import psutil

from compiler.lock.files import Cache, Files
from compiler.running import busy
from compiler.running.batch import Batch, Begun, Step, Task, WorkerState
from compiler.running.memory import kernel_kills, record_kill
from stages.contracts.artifact import ArtifactError, now, read, write
from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.files import open_append
from stages.contracts.layout import RunFolder
from stages.train.environment import cluster_job

PROGRAM_PATH = "OCTAVO_PYTHONPATH"
"""In a stage's environment: PYTHONPATH as it was, for the author's own program (stages/train/command.py)."""

SLOT, KEPT = "OCTAVO_SLOT", "OCTAVO_KEPT"
"""In a worker's environment: its GPUs or slot, for people; and file descriptors with locks, which its stages hold too until they end."""
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOPPED = 130
"""Exit code of what a signal has stopped in order."""
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""Signals that a process brings upon itself: it would again."""
HEAD = "== "
"""Begins the line of a log with which a stage begins."""
WAIT_SECONDS = 0.5
"""Between two looks at whether another process still works with the files."""


class Worker:
    """Does one task."""

    def __init__(self, batch: Batch, task: Task) -> None:
        self.batch, self.task = batch, task
        self.child: subprocess.Popen[bytes] | None = None
        self.is_stopping = False
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
        if self.is_stopping and code:
            why = self.stop_reason()
        self.why = why
        write(self.batch.state(self.task.run), state.model_copy(update={"ended": now(), "code": code, "why": why}))
        return code if code >= 0 else 128 - code

    def stop_reason(self) -> str:
        """Why a signal came, in a word or two."""
        return "cancelled" if self.batch.cancelled(self.task.run).exists() else "stopped"

    def _step(self, step: Step) -> tuple[int, str]:
        """(exit code, why it is no 0)."""
        is_here = KEPT in os.environ
        while is_here and not self.is_stopping and not busy.take(step.outs, f"octavo run: {step.command}"):
            time.sleep(WAIT_SECONDS)
        try:
            return (STOPPED, "") if self.is_stopping else (0, "") if is_remembered(step) else self._made(step)
        finally:
            if is_here:
                busy.give_back(step.outs)

    def _made(self, step: Step) -> tuple[int, str]:
        """Run a stage and hand it over; only the second where its worker was killed between the two."""
        begun = Begun(at=now(), command=step.command, deps=step.deps)
        place = self.batch.folder / f"{self.task.run}.begun"
        is_whole = left_whole(step, place)
        if not is_whole:
            for out in step.outs:  # as DVC does: what lies there may be a link into its cache, and must not be written through
                if os.path.isdir(out) and not os.path.islink(out):
                    shutil.rmtree(out)
                elif os.path.lexists(out):
                    os.unlink(out)
            write(place, begun)
        with open_append(self.batch.log(self.task.run)) as log:
            log.write(f"{HEAD}{step.stage}, {now()}{', had ended' if is_whole else ''}\n".encode())
            log.flush()
            call, kills = [sys.executable, "-m", step.module, *step.arguments], kernel_kills()
            code = 0 if is_whole else self._wait(call, log.fileno(), self._environment())
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
        if self.is_stopping:  # between the two
            self.child.send_signal(signal.SIGTERM)
        return self.child.wait()

    def _environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DVC_STAGE")}
        before = inherited.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, (self.batch.code, before)))
        own = {"PYTHONSAFEPATH": "1", "PYTHONPATH": path, PROGRAM_PATH: before}  # the copy stands before the project's own folder
        return {**inherited, "OCTAVO_PROGRESS": "json", "PYTHONUNBUFFERED": "1", **own}

    def _folder(self) -> str:
        return Path(self.task.steps[0].arguments[0]).parent.as_posix()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.is_stopping = True
        if self.child is not None and self.child.returncode is None:
            self.child.send_signal(signal.SIGTERM)


def left_whole(step: Step, begun: Path) -> bool:
    """Whether the training that `begun` tells of has ended well, of the same inputs, and its files all lie there."""
    try:
        start = read(Begun, begun)
        run = RunFolder(Path(step.arguments[0]))
        outcome, attempts = read(Outcome, run.outcome), read_attempts(run.attempts)
    except (ArtifactError, OSError):
        return False
    is_same = start.command == step.command and start.deps == step.deps and run.outcome.as_posix() in step.outs
    last = attempts[-1] if attempts else None
    is_ended = last is not None and last.state == "finished" and last.started.at >= start.at and last.started.attempt == outcome.attempt
    return is_same and is_ended and outcome.finished and all(map(os.path.exists, step.outs))


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
        with contextlib.suppress(OSError, AttributeError):  # Linux only
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
