"""Answers in, verdicts out: what the verifiers of all languages share around their processes."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Generic, TypeVar

from stages.train.verifiers import sandbox
from stages.train.verifiers.box import BATCH, Asking, Box, Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.verdict import Checked, VerifierFault, VerifierUnavailable, unknown

CACHED_JOBS = 4096
SHARES = "OCTAVO_SHARES"
"""Environment variable: how many runs `octavo run` trains side by side on this machine."""
J = TypeVar("J")


class Verifier(Generic[J]):
    """Runs jobs of one kind in boxes. Thread-safe. Equal jobs are checked once, and verdicts that cannot change are kept."""

    def __init__(
        self, program: Callable[[Tier], Program], asking: Callable[[J], Asking], tier: Tier | None = None, workers: int | None = None
    ) -> None:
        """`workers`: most boxes at a time, None = one a core."""
        self._program, self._asking, self.tier, self._workers = program, asking, tier, workers or cores()
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Also in a fork of the process that used it: its processes are the parent's, and so are the threads that may hold the lock."""
        self._lock = threading.RLock()
        self._kept: OrderedDict[J, Checked] = OrderedDict()
        self.boxes: list[Box | None] = [None] * (2 * self._workers)
        self._threads = ThreadPoolExecutor(self._workers, "octavo-verifier")

    def close(self) -> None:
        """End the boxes; the next job starts others."""
        for place in range(len(self.boxes)):
            self._drop(place)

    def run(self, jobs: Sequence[J]) -> list[Checked]:
        """One verdict a job, in order. Never raises for what the verifier cannot do: that is a verdict of its own, unknown."""
        with self._lock:
            results = {job: self._kept[job] for job in jobs if job in self._kept}
            results |= self.check([job for job in dict.fromkeys(jobs) if job not in results])
            for job, result in results.items():
                if result.keep:
                    self._kept[job] = result
                    self._kept.move_to_end(job)
            while len(self._kept) > CACHED_JOBS:
                self._kept.popitem(last=False)
            return [results[job] for job in jobs]

    def check(self, jobs: list[J]) -> dict[J, Checked]:
        """Verdicts of jobs that are not known yet, each once."""
        results: dict[J, Checked] = {}
        orders: dict[J, Order] = {}
        for job in jobs:
            try:
                orders[job] = next(self._asking(job))
            except StopIteration as done:
                results[job] = done.value
        if not orders:
            return results
        try:
            tier = self.tier or sandbox.tier()
            program = self._program(tier)
        except VerifierUnavailable as error:
            return results | dict.fromkeys(orders, unknown(error.what))
        batch = 1 if program.is_used_once else BATCH
        waiting, most = list(orders), max(order.memory for order in orders.values())
        workers = max(1, min(self._workers, -(-len(waiting) // batch), memory() // most))

        def submit(place: int, part: list[J]) -> dict[J, Checked]:
            return self._work(place, program, tier, [part[start : start + batch] for start in range(0, len(part), batch)], orders)

        futures = [self._threads.submit(submit, place, waiting[place::workers]) for place in range(workers)]
        try:
            for future in futures:
                results |= future.result()
            for job in [job for job in waiting if results[job].outcome == "unknown"]:  # once more, with nothing beside it
                results |= self._threads.submit(submit, 0, [job]).result()
                if self.boxes[0] is None:  # none starts
                    break
        except BaseException:  # an interrupt: whoever waits for a box does not wait longer
            for box in self.boxes:
                if box:
                    box.kill()
            wait(futures)
            raise
        return results

    def _work(self, place: int, program: Program, tier: Tier, parts: list[list[J]], orders: Mapping[J, Order]) -> dict[J, Checked]:
        """Run batches in one box. Where it breaks off or does not start, the jobs left are unknown."""
        results = {job: unknown("the sandbox broke off") for part in parts for job in part}
        for number, part in enumerate(parts):
            try:
                box = self._box(place, program, tier)
            except (VerifierFault, OSError) as error:  # OSError: no descriptor or no memory is left
                return results | {job: unknown(str(error)) for part in parts[number:] for job in part}
            for job, ended in zip(part, box.ask([orders[job] for job in part]), strict=False):
                if (verdict := self._heard(job, ended, place, program, tier)) is not None:
                    results[job] = verdict
                if results[job].outcome == "unknown":  # perhaps this was meant for another job
                    for held in (self.boxes[place], self.boxes[place + self._workers]):
                        if held:
                            held.whole = False
        return results

    def _heard(self, job: J, ended: Ended, place: int, program: Program, tier: Tier) -> Checked | None:
        """The verdict after the first order has ended and all that follow it; None where a box breaks off."""
        asking = self._asking(job)
        next(asking)
        try:
            while True:
                order = asking.send(ended)
                second = program.second if order.is_second else None
                box = self._box(place + self._workers, second, tier) if second else self._box(place, program, tier)
                results = box.ask([order])
                if not results:
                    return None
                ended = results[0]
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        except (VerifierFault, OSError) as error:
            return unknown(str(error))

    def _box(self, place: int, program: Program, tier: Tier) -> Box:
        """The box that stands there, or a new one. Raises VerifierFault or OSError."""
        box = self.boxes[place]
        if box is None or not box.whole or program.is_used_once:
            self._drop(place)
            box = self.boxes[place] = Box(program, tier)
        return box

    def _drop(self, place: int) -> None:
        box, self.boxes[place] = self.boxes[place], None
        if box:
            box.close()


def cores() -> int:
    """Cores of this process: its affinity, the container's quota, and a share of them where several trainers run on the machine."""
    count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, -(-int(quota) // int(period)))
    for name in ("LOCAL_WORLD_SIZE", SHARES):  # as torchrun and accelerate say it, and `octavo run`
        with contextlib.suppress(ValueError, ZeroDivisionError):
            count //= int(os.environ.get(name, "1"))
    return max(1, count)


def memory() -> int:
    """Bytes of memory of the machine, or of the container where that has less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return machine
