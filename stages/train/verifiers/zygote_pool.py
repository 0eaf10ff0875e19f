"""What the verifiers' pools share: one warm zygote a process, equal jobs once, canaries, retirement, restarts.

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

from stages.train.verifiers import sandbox
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.zygote_process import ZygoteProcess

CANARY_EVERY = 500
"""Jobs between two checks that the zygote still tells good, bad and endless answers apart."""
RETIRE_AFTER = 5000
ATTEMPTS = 2
"""A job that the verifier failed runs once more, alone."""
STARTS = 3
CACHED_JOBS = 4096


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


J = TypeVar("J")
R = TypeVar("R", bound=Result)
Z = TypeVar("Z", bound=ZygoteProcess)


class Pool(ABC, Generic[J, R, Z]):
    """The verifier of one process. Thread-safe: jobs, which are hashable, run one after the other."""

    retire_after = RETIRE_AFTER
    """Jobs after which a zygote is replaced."""

    def __init__(self, tier: Tier | None = None) -> None:
        self._tier, self._checked = tier, 0
        self._zygote: Z | None = None
        self._kept: OrderedDict[J, R] = OrderedDict()
        self._lock = threading.Lock()

    @abstractmethod
    def start(self, tier: Tier) -> Z:
        """A new zygote. Raises VerifierFault or VerifierUnavailable."""

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
        """Process whose end is the zygote's; None while there is none."""
        return self._zygote.pid if self._zygote else None

    def run(self, jobs: Sequence[J]) -> list[R]:
        """One result a job, in order."""
        with self._lock:
            found: dict[J, R] = {}
            broken = ""
            for job in jobs:
                if job in found:
                    continue
                kept = self._kept.get(job)
                if kept is not None:
                    self._kept.move_to_end(job)
                elif not broken:
                    try:
                        kept = self._keep(job, self._one(job))
                    except VerifierUnavailable as error:
                        broken = error.what
                    except VerifierFault as error:
                        broken = str(error)
                found[job] = kept or self.unknown(broken)
            return [found[job] for job in jobs]

    def close(self) -> None:
        """End the zygote; the next job starts another."""
        if self._zygote:
            self._zygote.close()
            self._zygote = None

    def forget(self) -> None:
        """In a fork of this process: let go of the parent's zygote and of a lock that a vanished thread may hold."""
        self._lock = threading.Lock()
        self.close()

    def end_with_process(self) -> None:
        """End the zygote when this process ends, and let go of it in forks."""
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self.forget)

    def _one(self, job: J) -> R:
        """Run a job, again when the verifier failed it. Raises when no zygote starts."""
        reason = ""
        for _ in range(ATTEMPTS):
            zygote = self._ready()
            try:
                result = self.ask(zygote, job)
            except VerifierFault as fault:
                self._zygote, reason = None, str(fault)
                continue
            if result.outcome != "unknown":
                return result
            reason = result.reason
        return self.unknown(reason)

    def _ready(self) -> Z:
        """A zygote that is young and has passed its canaries. Raises VerifierFault after STARTS failed starts."""
        fault = VerifierFault("")
        for _ in range(STARTS):
            if self._zygote and (self._zygote.jobs >= self.retire_after or not self._zygote.alive):
                self.close()
            try:
                if self._zygote is None:
                    self._zygote, self._checked = self.start(self._tier or sandbox.tier()), -CANARY_EVERY
                if self._zygote.jobs - self._checked >= CANARY_EVERY:
                    self.check(self._zygote)
                    self._checked = self._zygote.jobs
                return self._zygote
            except VerifierFault as error:
                fault = error
                self.close()
        raise fault

    def _keep(self, job: J, result: R) -> R:
        if result.keep:
            self._kept[job] = result
            while len(self._kept) > CACHED_JOBS:
                self._kept.popitem(last=False)
        return result
