"""Copies of dvc.lock from before `octavo run` calls DVC: DVC writes it in place, and a kill meanwhile leaves half of it, or nothing.

What DVC had recorded since the copy is in its run cache, so it is put back without running. A copy counts only when the process that made
it has gone without a word: a lock that a person or a merge left open is theirs.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from compiler.running.batch import JOBS
from stages.contracts.dvc_lock import read_lock
from stages.contracts.files import read_bytes, write_files
from stages.contracts.layout import MODELS, RUNS

COPIES = JOBS / "_locks"


@contextmanager
def kept() -> Iterator[None]:
    """Keep copies while DVC runs. To be entered when no lock is torn."""
    folder = _copies(os.getpid())
    write_files({folder / "made": b"", **{folder / path: read_bytes(path) for path in _locks()}})
    yield
    shutil.rmtree(folder, ignore_errors=True)


def restore() -> None:
    """Put back each lock that a DVC has left torn which was killed with its `octavo run`; one that was not there before is removed."""
    for folder in COPIES.glob(f"*@{platform.node()}"):  # of other machines it cannot be known here what still runs
        if psutil.pid_exists(int(folder.name.partition("@")[0])):
            continue
        for path in _locks():
            try:
                read_lock(path)
            except ValueError:
                if (folder / path).exists():
                    write_files({path: read_bytes(folder / path)}, durable=True)
                else:
                    path.unlink()
        shutil.rmtree(folder, ignore_errors=True)


def _copies(pid: int) -> Path:
    return COPIES / f"{pid}@{platform.node()}"


def _locks() -> list[Path]:
    return [path for path in (Path("dvc.lock"), *RUNS.glob("*/dvc.lock"), *MODELS.glob("*/dvc.lock")) if path.is_file()]
