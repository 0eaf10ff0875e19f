"""One run on several devices of this host: torch.multiprocessing starts one process a device.

The stage keeps the lock, the ledger and the files of the run; the ranks train, and rank 0 scores and records. Nothing here imports torch
while there is one process.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stages.train import interrupts
from stages.train.attempts import Stopped, classify
from stages.train.environment import prepare
from stages.train.refusals import refusal

T = TypeVar("T")
CRASHES = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT")
"""Signals that a process brings upon itself."""
LOOK_SECONDS = 0.2
"""How often the stage looks whether its ranks are to be asked to save."""
_place = (0, 1)
"""(rank, number of ranks) of this process."""


def rank() -> int:
    """Number of this process; 0 also in a run of one process."""
    return _place[0]


def world() -> int:
    """Number of processes that train together; 1 in the stage itself."""
    return _place[1]


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


def launch(work: Any, fit: Callable[[Any], object]) -> None:
    """Train `work` (stages/train/run.py) with `fit` on all devices of its card; its journal and checkpoints then hold what was done. Raises
    Stopped with the class and the sentence of the rank that failed, StageError S246 when there are fewer GPUs than ranks."""
    import torch

    card = work.card
    if card.device == "cuda" and torch.cuda.device_count() < card.gpus:
        raise refusal("S246", gpus=card.gpus, shown=torch.cuda.device_count())
    work.notes.update(run_ranks(card.gpus, _train, work, fit))
    for step, cells in work.journal.steps(until=card.train.max_steps):
        if step > work.steps_before:
            work.stopping.see(step, cells)


def _train(work: Any, fit: Callable[[Any], object]) -> dict[str, str]:
    from accelerate import PartialState

    global _place
    prepare(work.card.device, work.card.gpus, worker=True)
    state = PartialState(cpu=work.card.device == "cpu")
    _place = state.process_index, state.num_processes
    fit(work)
    notes: dict[str, str] = work.notes
    return notes


def run_ranks(count: int, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function once a rank, each in a process of its own, and return what it gives on rank 0. When one fails, the others are ended
    and Stopped says why. After SIGTERM they are asked to save the step and to end (interrupts.is_to_save)."""
    from torch.distributed.elastic.utils.distributed import get_free_port
    from torch.multiprocessing import ProcessExitedException, get_context, spawn

    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process that imports torch has read it
    reports, asked = get_context("spawn").SimpleQueue(), get_context("spawn").Event()
    ranks = spawn(_as_rank, (count, get_free_port(), os.getpid(), reports, asked, function, arguments), nprocs=count, join=False)
    try:
        with interrupts.saving_first():
            while not ranks.join(timeout=LOOK_SECONDS, grace_period=1.0):  # time for the others to say why they end
                if interrupts.is_to_save():
                    asked.set()
    except ProcessExitedException as ended:
        failures: dict[int, tuple[Any, str]] = {}
        while not reports.empty():
            number, _, failure = reports.get()
            failures |= {number: failure} if failure else {}
        raise Stopped(*_cause(ended, failures)) from None
    finally:
        for process in ranks.processes:
            process.kill()
            process.join()
    while True:
        number, value, _ = reports.get()
        if number == 0:
            result: T = value
            return result


def _cause(ended: Any, failures: dict[int, tuple[Any, str]]) -> tuple[Any, str]:
    """(class, sentence). A rank whose neighbour has gone raises about the broken connection, which reads as a bug: any other cause
    comes first."""
    reported = [(failure, f"rank {number}: {error}" if number else error) for number, (failure, error) in sorted(failures.items())]
    name = ended.signal_name
    killed = [("bug" if name in CRASHES else "interrupted", f"rank {ended.error_index} was killed by {name}")] if name else []
    causes = [cause for cause in reported if cause[0] != "bug"] + killed + reported
    return causes[0] if causes else ("bug", f"rank {ended.error_index} ended with exit code {ended.exit_code}")


def _as_rank(
    number: int, count: int, port: int, stage: int, reports: Any, asked: Any, function: Callable[..., object], arguments: Any
) -> None:
    """Report (number, what the function returns, failure), and end without exit functions: those of a process group that has lost a rank
    may hang."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of the terminal; the stage ends the ranks
    interrupts.ask(asked)
    interrupts.end_with_parent(signal.SIGKILL)
    if os.getppid() != stage:
        os._exit(1)  # the stage was killed before the line above
    os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if number:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        os.environ["WANDB_MODE"] = "disabled"
    try:
        reports.put((number, function(*arguments), None))
        code = 0
    except Exception as error:
        code, failure = 1, classify(error)
        reports.put((number, None, failure))
        if failure[0] == "bug":
            traceback.print_exc()
            time.sleep(1.0)  # a rank that was killed breaks connections shortly before it is seen as ended, and it is the cause
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
