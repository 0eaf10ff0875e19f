"""The parts of a pool's work: a lane is one zygote and how far it has been checked; a batch is what its lanes share."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from stages.train.verifiers.zygote_process import ZygoteProcess

J = TypeVar("J")
R = TypeVar("R")
Z = TypeVar("Z", bound=ZygoteProcess)


class Lane(Generic[Z]):
    """One place for a zygote. At most one thread works with it at a time."""

    def __init__(self, number: int) -> None:
        self.number, self.checked = number, 0
        self.zygote: Z | None = None

    def close(self) -> None:
        """End its zygote."""
        if self.zygote:
            self.zygote.close()
            self.zygote = None

    def interrupt(self) -> None:
        """From another thread: kill the zygote, so that whoever waits for it does not wait longer."""
        zygote = self.zygote
        if zygote:
            with contextlib.suppress(OSError):
                os.kill(zygote.pid, signal.SIGKILL)


class Batch(Generic[J, R]):
    """Jobs that wait, what became of the others, and why lanes stopped. Deques and dictionaries take one change at a time."""

    def __init__(self, jobs: Iterable[J]) -> None:
        self.waiting = deque(jobs)
        self.found: dict[J, R] = {}
        self.failed: dict[J, str] = {}
        """Jobs that the verifier failed, with its reason."""
        self.broken: dict[int, str] = {}
        """Lanes where no zygote starts."""

    def next(self) -> J | None:
        try:
            return self.waiting.popleft()
        except IndexError:
            return None
