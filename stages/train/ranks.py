"""One run on several devices of this host: the stage's own process is rank 0, and starts one more process a device.

Rank 0 keeps lock, ledger, journal, scoring and files; the others only train (stages/train/follower.py). Nothing here imports torch
while there is one process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stages.contracts.diagnostic import StageError
from stages.train import memory_kills
from stages.train.attempts import Stopped
from stages.train.environment import HANDOVER

T = TypeVar("T")
FIRST = "OCTAVO_FIRST_RANK"
"""Process id of rank 0: another rank whose parent is not that one has lost it."""
SECONDS_TO_BE_SEEN = 2.0
"""How long a process that was killed may take to be seen as ended, after its connections have broken."""
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""Signals that a process brings upon itself."""
SECONDS_TO_END = 60.0
"""How long another rank may take to end after rank 0 has trained to the end."""


def rank() -> int:
    """Which of the run's processes this is; 0 is the stage."""
    return int(os.environ["RANK"]) if HANDOVER in os.environ else 0


def world() -> int:
    """How many processes train the run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def gathered(items: Sequence[T]) -> list[T]:
    """The items of all ranks, in the order of ranks. Every rank must call it."""
    if world() == 1:
        return list(items)
    import torch.distributed as distributed

    found: list[Any] = [None] * world()
    distributed.all_gather_object(found, list(items))
    return [item for part in found for item in part]


def from_first(made: Callable[[], T]) -> T:
    """What rank 0 makes, on every rank. What it raises ends the others too. Every rank must call it."""
    if world() == 1:
        return made()
    import torch.distributed as distributed

    if rank():
        told: list[Any] = [None]
        distributed.broadcast_object_list(told, src=0)
        if told[0][1] is not None:
            raise Stopped(*told[0][1])
        found: T = told[0][0]
        return found
    try:
        value = made()
    except Exception as error:
        failure = error.failure if isinstance(error, Stopped) else "bug"  # the ledger says what rank 0 makes of it
        distributed.broadcast_object_list([(None, (failure, str(error)))], src=0)
        raise
    distributed.broadcast_object_list([(value, None)], src=0)
    return value


def use_own_device(device: str) -> None:
    """Each rank takes the GPU of its number. Raises StageError S246 when there are fewer GPUs than ranks."""
    if world() == 1 or device != "cuda":
        return
    import torch

    if torch.cuda.device_count() < world():
        raise StageError(
            "S246",
            f"the run wants {world()} GPUs, and this machine shows {torch.cuda.device_count()}",
            why="on fewer GPUs the batch would be another one, and so the result",
            fix="free the GPUs (CUDA_VISIBLE_DEVICES), or set `resources.gpus` and compile",
            pointer="/gpus",
        )
    torch.cuda.set_device(rank())


@contextlib.contextmanager
def followers(count: int, command: Sequence[str], handover: Path, task: dict[str, Any]) -> Iterator[None]:
    """While inside, this process is rank 0 of `count`, and the others run `command` with `task`. A failure of one of them is raised here
    as what it was there. On the way out all have ended. In another rank than the first: nothing."""
    if count == 1 or rank():
        yield
        return
    handover.mkdir(parents=True, exist_ok=True)
    for old in handover.glob("failure-*.json"):
        old.unlink()
    (handover / "task.json").write_text(json.dumps(task), encoding="utf-8")
    shared = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    own = {**shared, "RANK": "0", "LOCAL_RANK": "0"}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    kills = memory_kills.kills()
    others = [_started(command, number, shared, handover) for number in range(1, count)]
    finished = threading.Event()
    threading.Thread(target=_watch, args=(others, finished), daemon=True).start()
    try:
        yield
        for other in others:
            other.wait(SECONDS_TO_END)
    except Exception as error:
        if not isinstance(error, Stopped) and (failed := _failure(handover) or _killed(others, kills)) is not None:
            raise Stopped(*failed) from error
        raise
    finally:
        finished.set()
        for other in others:
            other.kill()
            other.wait()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _started(command: Sequence[str], number: int, shared: dict[str, str], handover: Path) -> subprocess.Popen[bytes]:
    mine = {"RANK": str(number), "LOCAL_RANK": str(number), HANDOVER: str(handover), FIRST: str(os.getpid()), "WANDB_MODE": "disabled"}
    environment = {**os.environ, **shared, **mine}
    return subprocess.Popen([sys.executable, *command], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _watch(others: list[subprocess.Popen[bytes]], finished: threading.Event) -> None:
    """Rank 0 would wait for a rank that has died until its collective times out: end the wait."""
    while not finished.wait(1.0):
        if any(other.poll() not in (None, 0) for other in others):
            import torch.distributed as distributed

            if not finished.wait(10.0) and distributed.is_initialized():
                with contextlib.suppress(Exception):
                    distributed.distributed_c10d._abort_process_group()
            if not finished.wait(30.0):  # it waits where nothing wakes it, such as for a rank that never came
                print("a rank has ended, and rank 0 cannot be woken: the attempt ends without a last word", file=sys.stderr, flush=True)
                os._exit(1)
            return


def _failure(handover: Path) -> tuple[Any, str] | None:
    """(class, sentence) of the first rank that said why it failed."""
    for path in sorted(handover.glob("failure-*.json")):
        with contextlib.suppress(json.JSONDecodeError, KeyError):
            told = json.loads(path.read_text(encoding="utf-8"))
            return told["failure"], f"rank {path.stem.removeprefix('failure-')}: {told['error']}"
    return None


def _killed(others: list[subprocess.Popen[bytes]], kills: int | None) -> tuple[Any, str] | None:
    """(class, sentence) of a rank that a signal ended, which leaves no word: what rank 0 then raises says only that a connection broke.
    `kills`: the kernel's count of processes killed for lack of memory as the ranks began."""
    until = time.monotonic() + SECONDS_TO_BE_SEEN
    while True:
        for number, other in enumerate(others, 1):
            code = other.poll()
            if code is not None and code < 0:
                now = memory_kills.kills()
                memory = code == -signal.SIGKILL and now is not None and kills is not None and now > kills
                sentence = f"rank {number} was killed by {signal.Signals(-code).name}"
                if memory:
                    return "out_of_memory", f"{sentence}, and the kernel's count of processes that it killed for lack of memory has risen"
                return ("bug" if -code in CRASHES else "interrupted"), sentence
        if time.monotonic() > until:
            return None
        time.sleep(0.05)


def failure_file(handover: Path, number: int) -> Path:
    """Where a rank says why it failed."""
    return handover / f"failure-{number}.json"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
