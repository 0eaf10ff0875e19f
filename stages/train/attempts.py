"""The attempts ledger of a run: who may train it now, what was tried, how it ended, and of which class a failure is.

The ledger is append-only and lives in git; two lines an attempt. A start without an end means that the process was killed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import platform
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import psutil

from stages.contracts.artifact import Frozen, now
from stages.contracts.attempt import Attempt, Changed, Ended, FailureClass, Outcome, Started, read_attempts
from stages.contracts.diagnostic import StageError
from stages.contracts.files import open_append, parse_json, read_bytes, read_text
from stages.contracts.layout import CHECKPOINTS, LOCKS, RUNS, RunFolder
from stages.train import interrupts
from stages.train.environment import cluster_job, commit, host_class, job_place, versions
from stages.train.refusals import refusal

_NO_MEMORY = re.compile(r"out of memory|can't allocate memory|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)
"""torch's allocators for the CPU and cuBLAS raise a plain RuntimeError."""
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}
_FULL_BYTES = 1 << 20


class Stopped(Exception):
    """Training must stop now, for a reason that is known. `failure` is its class, the message one plain sentence."""

    def __init__(self, failure: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure: FailureClass = failure


@contextlib.contextmanager
def lock(run: RunFolder) -> Iterator[None]:
    """Hold the run for this process. Raises StageError S210 when a live process trains it (killing dvc leaves its child running)."""
    path = _lock_file(run)
    with io.TextIOWrapper(open_append(path)) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            raise refusal("S210", run=run.root, **_owner(stream.read())) from None
        stream.truncate(0)
        stream.write(f"{os.getpid()} {platform.node()} {cluster_job() or ''}")
        stream.flush()
        yield


def holder(run: RunFolder) -> Literal["here", "elsewhere"] | None:
    """Whether a live process of this machine holds the run, or one of another machine took it last; None: nobody holds it. The lock is
    read and not tried, so that no stage ever waits for who asks."""
    path = _lock_file(run)
    try:
        pid, node, *_ = [*read_text(path, 1 << 10).split(), "", ""]
        if node and node != platform.node():
            return "elsewhere"
        is_held = any(os.path.samefile(file.path, path) for file in psutil.Process(int(pid)).open_files())
    except (OSError, ValueError, psutil.Error):
        return None
    return "here" if is_held else None


def _owner(content: str) -> dict[str, str]:
    """Who holds a run, from the words of its lock: process, machine and job; and what ends it."""
    pid, node, job = [*content.split(), "", "", ""][:3]
    if job:
        return {"owner": f"job {job} on {node}", "stop": f"scancel {job}"}
    there = f" on {node}" if node and node != platform.node() else ""
    return {"owner": f"process {pid or 'unknown'}{there}", "stop": f"kill {pid}{there}"}


def _lock_file(run: RunFolder) -> Path:
    return LOCKS / f"{run.root.parent.name}--{run.name}.lock"


def checkpoints(card_id: str) -> Path:
    """Folder of a card's checkpoints and journal, outside DVC's outs so that a killed run can resume."""
    return CHECKPOINTS / card_id


def begin(
    run: RunFolder,
    card_id: str,
    *,
    devices: tuple[str, ...],
    sandbox: str,
    resumed_from: int | None,
    changed: Changed | None = None,
    log: str | None = None,
) -> Started:
    """Append the start of a new attempt."""
    number = len(read_attempts(run.attempts)) + 1
    started = Started(
        attempt=f"{run.name}-a{number}-{secrets.token_hex(2)}",
        number=number,
        at=now(),
        card_id=card_id,
        commit=commit(),
        host=host_class(),
        devices=devices,
        versions=versions(),
        sandbox=sandbox,
        resumed_from=resumed_from,
        changed=changed,
        log=log,
        job=job_place(),
    )
    append(run.attempts, started)
    return started


def end(run: RunFolder, started: Started, outcome: Outcome, seconds: float, **notes: Any) -> None:
    """Append the end of an attempt, with `notes` on how it was trained (fields of Ended). It finished also when a rule stopped it."""
    ended = Ended(
        attempt=started.attempt,
        at=now(),
        outcome="finished" if outcome.finished else "unknown" if outcome.unknown else "failed",
        failure=outcome.failure,
        last_step=outcome.steps_done,
        seconds=round(seconds, 1),
        error=outcome.error[:500] if outcome.error else None,
        stopped=outcome.stopped,
        **notes,
    )
    append(run.attempts, ended)


def under(run: RunFolder, card_id: str) -> tuple[Attempt, ...]:
    """All attempts under a card, in order."""
    return tuple(attempt for attempt in read_attempts(run.attempts) if attempt.started.card_id == card_id)


def append(path: Path, entry: Frozen) -> None:
    """Add a line to a ledger, in place of one that a kill has torn."""
    last = read_bytes(path).rpartition(b"\n")[2] if path.exists() else b""
    with open_append(path) as stream:
        try:
            stream.write(b"\n" if last and parse_json(last) else b"")
        except ValueError:  # torn by a kill: no reader counts it, and with lines after it it would break the ledger
            stream.truncate(path.stat().st_size - len(last))
        stream.write(entry.model_dump_json().encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def classify(error: BaseException) -> tuple[FailureClass, str]:
    """Failure class and one sentence for an exception that ended training: from evidence, in the order of how sure it is."""
    stopped = interrupts.received()
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", str(error) or stopped or "stopped by a signal"
    if isinstance(error, Stopped) and not (stopped and error.failure == "verifier"):
        return error.failure, str(error)
    if stopped is not None:  # a consequence of it: a broken pipe, verifiers that got the same signal
        return "interrupted", stopped
    cause: BaseException | None = error
    while cause is not None:
        if _is_memory(cause):
            return "out_of_memory", f"{type(cause).__name__}: {cause}"
        if isinstance(cause, OSError) and cause.errno in _DISK:
            return "disk", f"{cause.strerror}: {cause.filename2 or cause.filename or '(no file named)'}"
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    full = next((folder for folder in (CHECKPOINTS, RUNS) if _is_full(folder)), None)
    if full is not None:  # safetensors and torch raise their own kinds when the disk is full
        return "disk", f"the disk that holds {full} is full ({type(error).__name__})"
    if isinstance(error, StageError):
        return "data", error.what
    return "bug", f"{type(error).__name__}: {error}"


def exit_code(failure: FailureClass | None) -> int:
    """Of a stage whose attempt is recorded. dvc goes on to the runs beside it unless we were stopped, or the disk is full. A rank or a
    program that was killed alone is `interrupted` too."""
    if failure == "interrupted":
        return 130 if interrupts.received() else 0
    return 1 if failure == "disk" else 0


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    code = getattr(error, "error_code", None)  # torch.AcceleratorError says which error of CUDA it is; 2 is cudaErrorMemoryAllocation
    if isinstance(code, int):
        return code == 2
    is_allocator = isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or bool(is_allocator)


def _is_full(folder: Path) -> bool:
    disk = os.statvfs(folder if folder.exists() else Path())
    return disk.f_bavail * disk.f_frsize < _FULL_BYTES or (disk.f_files > 0 and disk.f_favail == 0)
