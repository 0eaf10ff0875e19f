"""A batch of tasks and how far they are, as files that `octavo run` and its workers share: `.cache/jobs/<experiment>/batch.json`.

Beside it lie, for each run: `<run>.json` (a WorkerState), `<run>.log`, and `<run>.cancelled` when somebody wants no more of it.
"""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import psutil

from stages.contracts.artifact import Artifact, ArtifactError, Frozen, Time, read, write
from stages.contracts.files import make_folder, open_append, read_text, write_text

JOBS = Path(".cache/jobs")


class Step(Frozen):
    """One stage of a run."""

    stage: str
    module: str
    arguments: tuple[str, ...]
    command: str
    """As dvc.yaml has it."""
    inputs: tuple[str, ...]
    deps: dict[str, str]
    """Path -> MD5 of each input that no earlier step writes, as it was when the task was made."""
    outs: tuple[str, ...]


class Task(Frozen):
    """The stages of one run that are due, in their order."""

    run: str
    steps: tuple[Step, ...]
    gpus: int
    hours: float | None = None
    """Expected, as finished attempts took or the spec declares; null: unknown."""

    @property
    def trains(self) -> bool:
        return any(step.stage.startswith("train-") for step in self.steps)


class Batch(Artifact):
    """The tasks of one experiment that were submitted together."""

    SCHEMA: ClassVar[str] = "octavo.batch/1"

    experiment: str
    machine: str
    made: Time
    code: str
    """Folder of the copy of `stages` that the tasks import: what is edited while they wait does not reach them."""
    tasks: tuple[Task, ...]

    @property
    def folder(self) -> Path:
        return JOBS / self.experiment

    def log(self, run: str) -> Path:
        """What the worker and its stages print."""
        return self.folder / f"{run}.log"

    def state(self, run: str) -> Path:
        """The worker's WorkerState; absent until it has begun."""
        return self.folder / f"{run}.json"

    def cancelled(self, run: str) -> Path:
        """Is there when somebody has cancelled the run."""
        return self.folder / f"{run}.cancelled"


class WorkerState(Artifact):
    """How far a task is: written by its worker when it begins, at each step, and when it ends."""

    SCHEMA: ClassVar[str] = "octavo.worker/1"

    pid: int
    created: float
    """When the process began, as psutil says it: a process id is used again."""
    host: str
    job: str | None = None
    """Id of the cluster's job."""
    devices: str | None = None
    """GPUs or slot, as the machine names them."""
    began: Time
    step: str
    """Stage that runs now, or ran last."""
    ended: Time | None = None
    code: int | None = None
    """Of the stage that ran last: 0, or negative for a signal; null while it runs."""
    why: str = ""
    """Why it ended before its end, such as `cancelled`."""

    def process(self) -> psutil.Process | None:
        """The worker, if it is alive and of this machine."""
        if self.ended is None and self.host == platform.node():
            with suppress(psutil.Error):
                process = psutil.Process(self.pid)
                if abs(process.create_time() - self.created) < 2.0 and process.status() != psutil.STATUS_ZOMBIE:
                    return process
        return None


class Begun(Artifact):
    """`<run>.begun`: with which inputs the worker started a stage. It outlives batches, as what a killed worker left is of its inputs."""

    SCHEMA: ClassVar[str] = "octavo.begun/1"

    at: Time
    command: str
    deps: dict[str, str]


def keep(batch: Batch) -> None:
    """Write a batch. What is known of its runs from an earlier one is forgotten; their logs go on."""
    make_folder(batch.folder)
    if not (JOBS / ".gitignore").exists():
        write_text(JOBS / ".gitignore", "*\n")
    for task in batch.tasks:
        batch.cancelled(task.run).unlink(missing_ok=True)
        batch.state(task.run).unlink(missing_ok=True)
    write(batch_file(batch.experiment), batch)


@contextmanager
def claimed(experiments: Sequence[str], *, waits: bool = False) -> Iterator[str | None]:
    """While the block runs, no other `octavo run` of this machine sees to these experiments. Gives the first that one does, or None;
    `waits` until that one has ended."""
    with ExitStack() as stack:
        busy = None
        for name in experiments:
            stream = stack.enter_context(open_append(_claim(name)))
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            except BlockingIOError:
                busy = busy or name
            else:
                stream.truncate(0)
                stream.write(f"{os.getpid()}".encode())
                stream.flush()
        yield busy


def is_claimed(experiment: str) -> bool:
    """Whether an `octavo run` of this machine sees to an experiment now. The lock is read and not tried, so no stage waits."""
    path = _claim(experiment)
    with suppress(OSError, ValueError, psutil.Error):
        return any(os.path.samefile(file.path, path) for file in psutil.Process(int(read_text(path, 1 << 10))).open_files())
    return False


def _claim(experiment: str) -> Path:
    return JOBS / experiment / "run.lock"


def batch_file(experiment: str) -> Path:
    """Path of the newest batch of an experiment."""
    return JOBS / experiment / "batch.json"


def newest(experiment: str) -> Batch | None:
    """The newest batch; None when nothing of the experiment was ever submitted. Raises ArtifactError for one of another version."""
    path = batch_file(experiment)
    return read(Batch, path) if path.exists() else None


def state(batch: Batch, run: str) -> WorkerState | None:
    """What the worker of a run has written; None before it has begun."""
    with suppress(ArtifactError):
        return read(WorkerState, batch.state(run))
    return None
