"""Which class a failure is of: from evidence, in the order of how sure it is. Words count only where a library leaves nothing else."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from stages.contracts.attempt import FailureClass
from stages.contracts.diagnostic import StageError
from stages.contracts.layout import CHECKPOINTS, RUNS
from stages.train import interrupts
from stages.train.attempts import Stopped

_NO_MEMORY = re.compile(r"out of memory|can't allocate memory|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)
"""torch's allocators for the CPU and cuBLAS raise a plain RuntimeError."""
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}
_FULL_BYTES = 1 << 20


def classify(error: BaseException) -> tuple[FailureClass, str]:
    """Failure class and one sentence for an exception that ended training."""
    stopped = interrupts.received()
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", str(error) or stopped or "stopped by a signal"
    if isinstance(error, Stopped) and not (stopped and error.failure == "verifier"):
        return error.failure, str(error)
    if stopped is not None:  # a consequence of it: a broken pipe, verifiers that got the same signal
        return "interrupted", stopped
    name = type(error).__name__
    for cause in _causes(error):
        if _is_memory(cause):
            return "out_of_memory", f"{type(cause).__name__}: {cause}"
        if isinstance(cause, OSError) and cause.errno in _DISK:
            return "disk", f"{cause.strerror}: {cause.filename2 or cause.filename or '(no file named)'}"
    full = next((folder for folder in (CHECKPOINTS, RUNS) if _is_full(folder)), None)
    if full is not None:  # safetensors and torch raise their own kinds when the disk is full
        return "disk", f"the disk that holds {full} is full ({name})"
    if isinstance(error, StageError):
        return "data", error.what
    return "bug", f"{name}: {error}"


def exit_code(failure: FailureClass | None) -> int:
    """Of a stage whose attempt is recorded. dvc goes on to the runs beside it unless we were stopped, or the disk is full. A rank or a
    program that was killed alone is `interrupted` too."""
    if failure == "interrupted":
        return 130 if interrupts.received() else 0
    return 1 if failure == "disk" else 0


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    code = getattr(error, "error_code", None)  # torch.AcceleratorError says which error of CUDA it is; 2 is cudaErrorMemoryAllocation
    return code == 2 if isinstance(code, int) else isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error)))


def _is_full(folder: Path) -> bool:
    disk = os.statvfs(folder if folder.exists() else Path())
    return disk.f_bavail * disk.f_frsize < _FULL_BYTES or (disk.f_files > 0 and disk.f_favail == 0)
