"""DVC's own lock of files, `.dvc/tmp/rwlock`, held by a worker for what its stage writes, as a `dvc repro` that runs the stage holds it.

DVC empties a stage's outputs before it starts the command. Without this lock a `dvc repro` that is typed between the end of a stage and its
handover would throw the trained run away. The file is JSON, path -> who writes and who reads it, and another locked file guards it; entries
of processes that have gone count for nothing. It names processes of one machine, so only the local machine asks for it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from stages.contracts.files import open_append, read_json, write_text

RWLOCK = Path(".dvc/tmp/rwlock")


def take(outs: Sequence[str], command: str) -> bool:
    """Hold these files. False while another process that is alive writes or reads one of them."""
    mine = {"pid": os.getpid(), "cmd": command}
    paths = [os.path.abspath(out) for out in outs]
    with _opened() as lock:
        others = list(lock["write"].items())
        others += [(path, entry) for path, entries in lock["read"].items() for entry in entries]
        if any(entry["pid"] != mine["pid"] and _overlap(path, paths) and psutil.pid_exists(entry["pid"]) for path, entry in others):
            return False
        lock["write"] |= dict.fromkeys(paths, mine)
    return True


def give_back(outs: Sequence[str]) -> None:
    """Hold them no longer."""
    paths = [os.path.abspath(out) for out in outs]
    with _opened() as lock:
        lock["write"] = {path: entry for path, entry in lock["write"].items() if path not in paths or entry["pid"] != os.getpid()}


def repair() -> None:
    """Write the file again: DVC writes it in place, and where it is killed meanwhile, it refuses to run from then on."""
    if RWLOCK.exists():
        with _opened():
            pass


def _overlap(path: str, paths: Sequence[str]) -> bool:
    return any(f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/") for other in paths)


@contextmanager
def _opened() -> Iterator[dict[str, Any]]:
    """Hold the lock; it is written when the block ends without an error."""
    with open_append(RWLOCK.with_name("rwlock.lock")) as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        try:
            before = read_json(RWLOCK)
        except (FileNotFoundError, ValueError):
            before = {}
        lock = {"write": before.get("write", {}), "read": before.get("read", {})}
        yield lock
        write_text(RWLOCK, json.dumps(lock))
