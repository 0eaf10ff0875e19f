"""What the verifiers' pools share: one warm zygote a core, equal jobs once, canaries, retirement, restarts.

`Pool.run(jobs)` never raises: what the verifier could not do is a result of its own, unknown.
"""

from __future__ import annotations

import atexit
import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from stages.train.verifiers import cores, sandbox
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.lanes import Batch, Lane
from stages.train.verifiers.zygote_process import ZygoteProcess

CANARY_EVERY = 500
"""Jobs between two checks that the zygote still tells good, bad and endless answers apart."""
RETIRE_AFTER = 5000
STARTS = 3
CACHED_JOBS = 4096


class Job(Protocol):
    """What a verifier is asked. Hashable: equal jobs run once."""

    @property
    def memory(self) -> int:
        """Bytes that it may use."""

    def __hash__(self) -> int: ...


class Result(Protocol):
    """What became of a job."""

    @property
    def outcome(self) -> str:
        """`unknown` when the verifier failed."""

    @property
    def reason(self) -> str: ...

    @property
    def keep(self) -> bool:
        """Whether to keep this for equal jobs: not for what may end otherwise, nor for large results."""


J = TypeVar("J", bound=Job)
R = TypeVar("R", bound=Result)
Z = TypeVar("Z", bound=ZygoteProcess)


class Pool(ABC, Generic[J, R, Z]):
    """The verifier of one process. Thread-safe: batches run one after the other, the jobs of a batch on all lanes at once."""

    retire_after = RETIRE_AFTER
    """Jobs after which a zygote is replaced."""
    jobs_a_lane = 8
    """Waiting jobs for which another zygote is worth its start."""

    def __init__(self, tier: Tier | None = None, lanes: int | None = None) -> None:
        """`lanes`: most zygotes at a time; None = one a core."""
        self._tier = tier
        self._lanes: list[Lane[Z]] = [Lane(number) for number in range(lanes or cores.cores())]
        self._kept: OrderedDict[J, R] = OrderedDict()
        self._lock = threading.Lock()

    @abstractmethod
    def start(self, tier: Tier, lane: int) -> Z:
        """A new zygote, with the uid of its lane. Raises VerifierFault or VerifierUnavailable."""

    @abstractmethod
    def ask(self, zygote: Z, job: J) -> R:
        """Run one job. Raises VerifierFault; the zygote is ended then."""

    @abstractmethod
    def check(self, zygote: Z) -> None:
        """Canaries. Raises VerifierFault when the zygote no longer tells right from wrong."""

    @abstractmethod
    def unknown(self, reason: str) -> R:
        """The result of a job that the verifier could not decide."""

    @property
    def pid(self) -> int | None:
        """Process whose end is the first zygote's; None while there is none."""
        zygote = self._lanes[0].zygote
        return zygote.pid if zygote else None

    @property
    def zygotes(self) -> list[Z]:
        """Those that are there, by lane."""
        return [lane.zygote for lane in self._lanes if lane.zygote]

    def run(self, jobs: Sequence[J]) -> list[R]:
        """One result a job, in order."""
        with self._lock:
            found: dict[J, R] = {}
            waiting: dict[J, None] = {}
            for job in jobs:
                kept = self._kept.get(job)
                if kept is None:
                    waiting[job] = None
                else:
                    self._kept.move_to_end(job)
                    found[job] = kept
            if waiting:
                found |= self._asked(list(waiting))
            for job in waiting:
                self._keep(job, found[job])
            return [found[job] for job in jobs]

    def close(self) -> None:
        """End the zygotes; the next job starts another."""
        for lane in self._lanes:
            lane.close()

    def forget(self) -> None:
        """In a fork of this process: let go of the parent's zygotes and of a lock that a vanished thread may hold."""
        self._lock = threading.Lock()
        self.close()

    def end_with_process(self) -> None:
        """End the zygotes when this process ends, and let go of them in forks."""
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self.forget)

    def _asked(self, jobs: list[J]) -> dict[J, R]:
        """Run distinct jobs on as many lanes as pay, then those that the verifier failed once more, alone."""
        most = min(len(self._lanes), -(-len(jobs) // self.jobs_a_lane), max(1, cores.memory() // max(job.memory for job in jobs)))
        batch: Batch[J, R] = Batch(jobs)
        helpers = [threading.Thread(target=self._work, args=(lane, batch, batch.next()), daemon=True) for lane in self._lanes[1:most]]
        for helper in helpers:
            helper.start()
        try:
            self._work(self._lanes[0], batch, batch.next())
            for helper in helpers:
                helper.join()
        except BaseException:  # an interrupt: nobody waits for the rest
            batch.waiting.clear()
            for lane in self._lanes[1:most]:
                lane.interrupt()
            for helper in helpers:
                helper.join()
            for lane in self._lanes[1:most]:
                lane.close()
            raise
        if batch.failed:  # a zygote that was just killed may have answered once more, and nobody has noticed yet
            self._lanes[0].close()
        for job in jobs:
            if job not in batch.found:
                batch.found[job] = self._alone(job, batch)
        return batch.found

    def _work(self, lane: Lane[Z], batch: Batch[J, R], job: J | None) -> None:
        """Run a first job and then others of the batch until there are none, or no zygote starts here."""
        while job is not None:
            try:
                zygote = self._ready(lane)
            except Exception as error:
                batch.waiting.appendleft(job)
                batch.broken[lane.number] = error.what if isinstance(error, VerifierUnavailable) else str(error)
                return
            self._one(lane, zygote, job, batch)
            job = batch.next()

    def _one(self, lane: Lane[Z], zygote: Z, job: J, batch: Batch[J, R]) -> None:
        try:
            result = self.ask(zygote, job)
        except Exception as error:  # most often a VerifierFault; whatever else it is, the zygote may be in the middle of a frame
            lane.close()
            batch.failed[job] = str(error) or type(error).__name__
            return
        if result.outcome == "unknown":
            batch.failed[job] = result.reason
        else:
            batch.found[job] = result

    def _alone(self, job: J, batch: Batch[J, R]) -> R:
        """A job that failed, or that no lane took, with nothing beside it."""
        lane = self._lanes[0]
        if job not in batch.failed and lane.number in batch.broken:
            return self.unknown(batch.broken[lane.number])
        self._work(lane, batch, job)
        batch.waiting.clear()
        found = batch.found.pop(job, None)
        return found or self.unknown(batch.failed.get(job) or batch.broken.get(lane.number, ""))

    def _ready(self, lane: Lane[Z]) -> Z:
        """A zygote that is young and has passed its canaries. Raises VerifierFault after STARTS failed starts."""
        fault = VerifierFault("")
        for _ in range(STARTS):
            if lane.zygote and (lane.zygote.jobs >= self.retire_after or not lane.zygote.alive):
                lane.close()
            try:
                if lane.zygote is None:
                    lane.zygote, lane.checked = self.start(self._tier or sandbox.tier(), lane.number), -CANARY_EVERY
                if lane.zygote.jobs - lane.checked >= CANARY_EVERY:
                    self.check(lane.zygote)
                    lane.checked = lane.zygote.jobs
                return lane.zygote
            except VerifierFault as error:
                fault = error
                lane.close()
        raise fault

    def _keep(self, job: J, result: R) -> None:
        if result.keep:
            self._kept[job] = result
            while len(self._kept) > CACHED_JOBS:
                self._kept.popitem(last=False)
