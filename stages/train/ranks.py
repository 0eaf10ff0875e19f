"""One run on several devices of this host: torch's elastic agent (torchrun) starts one worker a device (stages/train/worker.py).

The stage keeps the lock, the ledger and the files of the run; the workers train, and the worker of rank 0 scores and records. Nothing here
imports torch while there is one process.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stages.contracts.diagnostic import StageError
from stages.train.attempts import Stopped

T = TypeVar("T")
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""Signals that a process brings upon itself."""
_place = (0, 1)
"""(rank, number of ranks) of this process."""


def rank() -> int:
    """Number of this worker; 0 also in a run of one process."""
    return _place[0]


def world() -> int:
    """Number of processes that train together; 1 in the stage itself."""
    return _place[1]


def join(device: str) -> None:
    """In a worker: join the process group and take the device of this rank."""
    from accelerate import PartialState

    global _place
    state = PartialState(cpu=device == "cpu")
    _place = state.process_index, state.num_processes


def gathered(items: Sequence[T]) -> list[T]:
    """The items of all ranks, in the order of ranks. Every rank must call it."""
    if world() == 1:
        return list(items)
    from accelerate.utils import gather_object

    everything: list[T] = gather_object(list(items))
    return everything


def from_first(make: Callable[[], T]) -> T:
    """What rank 0 makes, on every rank. What it raises ends the others too. Every rank must call it."""
    if world() == 1:
        return make()
    from accelerate.utils import broadcast_object_list

    if rank():
        (received,) = broadcast_object_list([None])
        if received[1] is not None:
            raise Stopped(*received[1])
        value: T = received[0]
        return value
    try:
        value = make()
    except Exception as error:
        broadcast_object_list([(None, (error.failure if isinstance(error, Stopped) else "bug", str(error)))])
        raise
    broadcast_object_list([(value, None)])
    return value


def launch(work: Any) -> None:
    """Train `work` (stages/train/run.py) on all devices of its card; its journal and checkpoints then hold what was done. Raises Stopped
    with the class and the sentence of the rank that failed, StageError S246 when there are fewer GPUs than ranks."""
    import torch

    card, folder = work.card, work.output.parent / "ranks"
    if card.device == "cuda" and torch.cuda.device_count() < card.gpus:
        raise StageError(
            "S246",
            f"the run wants {card.gpus} GPUs, and this machine shows {torch.cuda.device_count()}",
            why="on fewer GPUs the batch would be another one, and so the result",
            fix="free the GPUs (CUDA_VISIBLE_DEVICES), or set `resources.gpus` and compile",
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    worker = [sys.executable, "-m", "stages.train.worker", work.run.root.as_posix(), folder.as_posix(), str(os.getpid())]
    run_workers(card.gpus, worker, folder)
    work.notes.update(json.loads((folder / "notes.json").read_text(encoding="utf-8")))
    for step, cells in work.journal.steps(until=card.train.max_steps):
        if step > work.steps_before:
            work.stopping.see(step, cells)


def run_workers(count: int, command: Sequence[str], folder: Path) -> None:
    """Run a command once a rank and wait. When one fails, the others are ended and Stopped says why: what a rank wrote into
    `failure-<rank>.json` in the folder, or the signal that ended one."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        run_id=folder.parent.name,
        max_restarts=0,
        signals_to_handle="SIGQUIT",  # the others are ours (stages/train/interrupts.py)
    )
    try:
        elastic_launch(config, command[0])(*command[1:])
    except ChildFailedError as error:
        raise Stopped(*_failure(folder, {number: failure.exitcode for number, failure in error.failures.items()})) from None


def _failure(folder: Path, exit_codes: Mapping[int, int]) -> tuple[Any, str]:
    """(class, sentence). A rank whose neighbour has gone raises about the broken connection, which reads as a bug: any other cause
    comes first."""
    written = []
    for path in sorted(folder.glob("failure-*.json")):
        number, failure = int(path.stem.removeprefix("failure-")), json.loads(path.read_text(encoding="utf-8"))
        written.append((failure["failure"], f"rank {number}: {failure['error']}" if number else failure["error"]))
    killed = {number: signal.Signals(-code) for number, code in exit_codes.items() if code < 0}
    signals = [("bug" if name in CRASHES else "interrupted", f"rank {number} was killed by {name.name}") for number, name in killed.items()]
    causes = [cause for cause in written if cause[0] != "bug"] + signals + written
    return causes[0] if causes else ("bug", f"a rank ended with exit code {next(iter(exit_codes.values()), 1)}")
