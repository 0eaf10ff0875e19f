"""Sandboxed processes: any that answers on its standard output, and the box, which runs answers, each in a process forked for it.

The process in the box never reads an answer: each forked process reads its own part of a file that lies in memory, and writes to an
output file of its own. So no process that runs an answer descends from one that has seen another answer or what another answer wrote.
What an answer's process writes is untrusted; how it ended is said by its parent.

Standard input of the program, in lines of numbers: `<uid or -1> <descriptor of the contents> <size of the filter, which they begin
with> <output bytes>`, then for each answer `<offset> <size of the answer> <size of the rest> <descriptor of the output> <CPU ms>
<memory> <wall ms>`. Standard output: `ready`, then for each answer in order `<status of wait> <CPU seconds> <why it was ended, or ->`.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psutil

from stages.train.verifiers import isolation
from stages.train.verifiers.faults import VerifierFault
from stages.train.verifiers.isolation import BATCH, Program, Tier

START_SECONDS = 60.0
GRACE_SECONDS = 20.0
"""How much longer than an answer's wall time the host waits before it ends the box."""
OUTPUT_BYTES = 4 * 2**20
"""What one answer's process may write."""
WATCH_SECONDS = 0.05


@dataclass(frozen=True)
class Order:
    """One answer for the program in the box. Only forked processes read `answer`; `rest` is for one that does not run the answer."""

    answer: bytes
    cpu: float
    """CPU seconds."""
    memory: int
    """Bytes of address space."""
    rest: bytes = b""
    resident: float = math.inf
    """Bytes of memory in use above which the host ends the box, where no limit of the kernel's can."""

    @property
    def wall(self) -> float:
        """Seconds. An answer cannot sleep, so reaching this means that it got less than a tenth of a core."""
        return 5.0 + 10.0 * self.cpu


@dataclass(frozen=True)
class Ended:
    """How an answer's process ended. `written` is untrusted."""

    status: int
    """As from os.wait: signal in the low seven bits, exit code above."""
    cpu: float
    """CPU seconds, user and system."""
    why: str
    """Why it was ended, such as `wall`; empty when it ended by itself."""
    written: bytes


@dataclass(frozen=True)
class Stopped(Exception):
    """The program used too much of `what`: cpu, memory, output, stack or wall."""

    what: str


class Process(ABC):
    """A running program that answers orders. The thread that makes it must live as long as it. Raises VerifierFault."""

    def __init__(self, program: Program, tier: Tier, descriptors: tuple[int, ...] = ()) -> None:
        self.whole = True
        """Whether it still answers."""
        self.used, self._uses, self._rest = 0, program.uses, b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = isolation.start(program, tier, descriptors, self._errors)
        except OSError as error:
            self._errors.close()
            raise VerifierFault(f"the sandbox did not start: {error}") from None

    @abstractmethod
    def answer(self, orders: Sequence[Order]) -> Iterator[Ended]:
        """Run orders, one after the other. Raises Stopped for the order at hand, and VerifierFault."""

    def ask(self, orders: Sequence[Order]) -> list[Ended]:
        """Run at most BATCH orders. The results are fewer when the program breaks off."""
        self.used += len(orders)
        self.whole = self.used < self._uses
        results: list[Ended] = []
        try:
            for ended in self.answer(orders):
                results.append(ended)
        except Stopped as stopped:
            self.kill()
            results.append(Ended(0, 0.0, stopped.what, b""))
        except (VerifierFault, ValueError, KeyError, TypeError, RecursionError):
            self.whole = False
        except BaseException:  # an interrupt: what is left would answer the next batch
            self.kill()
            raise
        return results

    @property
    def pid(self) -> int:
        """A process whose end is the end of the program."""
        return self._process.pid

    def kill(self) -> None:
        """End the program, from any thread."""
        self.whole = False
        self._process.kill()

    def close(self) -> None:
        """End the program and wait until it has ended."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()

    def refusal(self, error: Exception) -> VerifierFault:
        """Close a program that does not start, and say why in its own last words."""
        words = self.last_words()
        self.close()
        return VerifierFault(f"the sandbox did not start: {words or error}")

    def last_words(self) -> str:
        """The last line of its standard error."""
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def send(self, content: bytes) -> None:
        """Write to its standard input. Raises VerifierFault."""
        assert self._process.stdin
        view = memoryview(content)
        try:
            while view:
                view = view[self._process.stdin.write(view) :]
        except (OSError, ValueError) as error:
            raise VerifierFault(f"it does not listen: {error}") from None

    def receive(
        self, end: bytes, wall: float, cpu: float = math.inf, resident: float = math.inf, most: int = 65536, before: float = 0.0
    ) -> bytes:
        """What it writes up to `end`. Raises VerifierFault, or Stopped when it uses more: seconds, CPU seconds above `before`, bytes."""
        assert self._process.stdout
        until = time.monotonic() + wall
        watched = not math.isinf(min(cpu, resident))
        content, self._rest = self._rest, b""
        while end not in content:
            left = max(0.0, until - time.monotonic())
            poll = select.poll()
            poll.register(self._process.stdout, select.POLLIN)
            if poll.poll(1000 * (min(left, WATCH_SECONDS) if watched else left)):
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    raise VerifierFault("it died")
                content = (content + chunk).lstrip(b"\n")
                if len(content) > most:
                    raise Stopped("output")
            elif left == 0:
                raise Stopped("wall")
            elif watched:
                seconds, bytes_used = usage(self.pid)
                if seconds - before > cpu or bytes_used > resident:
                    raise Stopped("cpu" if seconds - before > cpu else "memory")
        answer, _, self._rest = content.partition(end)
        return answer


class Box(Process):
    """A running box. Raises VerifierFault when it does not start."""

    def __init__(self, program: Program, tier: Tier) -> None:
        filter_ = program.filter()
        uid = isolation.uid_to_drop_to() if tier == "seccomp" else None
        self._contents, *self._outputs = self._files = [os.memfd_create("octavo", 0) for _ in range(1 + BATCH)]
        self._start = os.write(self._contents, filter_)
        try:
            super().__init__(program, tier, tuple(self._files))
        except BaseException:
            self._close_files()
            raise
        try:
            self.send(f"{-1 if uid is None else uid} {self._contents} {self._start} {OUTPUT_BYTES}\n".encode())
            if (line := self.receive(b"\n", START_SECONDS)) != b"ready":
                raise VerifierFault(f"it said {line[:80]!r}")
        except (VerifierFault, Stopped) as error:
            raise self.refusal(error) from None

    def answer(self, orders: Sequence[Order]) -> Iterator[Ended]:
        lines, offset = [], self._start
        for order, output in zip(orders, self._outputs, strict=False):
            os.ftruncate(output, 0)
            os.lseek(output, 0, os.SEEK_SET)  # the position is shared with the processes that wrote there before
            os.pwrite(self._contents, order.answer + order.rest, offset)
            limits = f"{int(1000 * order.cpu)} {order.memory} {int(1000 * order.wall)}"
            lines.append(f"{offset} {len(order.answer)} {len(order.rest)} {output} {limits}\n")
            offset += len(order.answer) + len(order.rest)
        self.send("".join(lines).encode())
        for order, output in zip(orders, self._outputs, strict=False):
            line = self.receive(b"\n", order.wall + GRACE_SECONDS, resident=order.resident)
            status, seconds, why = line.decode("ascii", "replace").split()
            yield Ended(int(status), float(seconds), "" if why == "-" else why, os.pread(output, OUTPUT_BYTES, 0))

    def close(self) -> None:
        super().close()
        self._close_files()

    def _close_files(self) -> None:
        while self._files:
            os.close(self._files.pop())


def usage(pid: int) -> tuple[float, int]:
    """(CPU seconds, user and system; resident bytes) of a process and all below it; zeros when it has gone."""
    seconds, resident = 0.0, 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                seconds += sum(member.cpu_times()[:4])
                resident += member.memory_info().rss
    return seconds, resident
