"""One sandboxed process that runs answers, each in a process forked for it.

The process in the box never reads an answer: each forked process reads its own part of a file that lies in memory, and writes to an
output file of its own. So no process that runs an answer descends from one that has seen another answer or what another answer wrote.
What an answer's process writes is untrusted; how it ended is said by its parent.

Standard input of the program, in lines of numbers: `<uid or -1> <descriptor of the contents> <size of the filter, which they begin
with> <output bytes>`, then for each answer `<offset> <size of the answer> <size of the rest> <descriptor of the output> <CPU ms>
<memory> <wall ms>`. Standard output: `ready`, then for each answer in order `<status of wait> <CPU seconds> <why it was ended, or ->`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

import psutil

from stages.train.verifiers import isolation
from stages.train.verifiers.faults import VerifierFault
from stages.train.verifiers.isolation import Program, Tier

START_SECONDS = 60.0
GRACE_SECONDS = 20.0
"""How much longer than an answer's wall time the host waits before it ends the box."""
OUTPUT_BYTES = 4 * 2**20
"""What one answer's process may write."""
WATCH_SECONDS = 0.05
BATCH = 8
"""Most answers of one batch; each needs a descriptor, of which a process may have no more than 1,024."""


@dataclass(frozen=True)
class Order:
    """One answer for the program in the box. Only forked processes read `answer`; `rest` is for one that does not run the answer."""

    answer: bytes
    cpu: float
    """CPU seconds."""
    memory: int
    """Bytes of address space."""
    rest: bytes = b""
    resident: int | None = None
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


class TooLarge(Exception):
    """An answer uses more memory than it may."""


class Box:
    """A running box. The thread that makes it must live as long as it. Raises VerifierFault when it does not start."""

    def __init__(self, program: Program, tier: Tier) -> None:
        self.whole = True
        """Whether it still answers."""
        self._read = b""
        filter_ = program.filter()
        uid = isolation.uid_to_drop_to() if tier == "seccomp" else None
        with contextlib.ExitStack() as stack:
            self._contents, *self._outputs = [_memory_file(stack) for _ in range(1 + BATCH)]
            self._start = os.write(self._contents, filter_)
            errors = stack.enter_context(tempfile.TemporaryFile())
            try:
                self._process = isolation.start(program, tier, (self._contents, *self._outputs), errors)
            except OSError as error:
                raise VerifierFault(f"the sandbox did not start: {error}") from None
            stack.callback(self._end)
            try:
                self._send([f"{-1 if uid is None else uid} {self._contents} {self._start} {OUTPUT_BYTES}"])
                if (said := self._line(START_SECONDS)) != "ready":
                    raise VerifierFault(f"it said {said[:80]!r}")
            except VerifierFault as error:
                self._end()
                errors.seek(0)
                words = errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
                raise VerifierFault(f"the sandbox did not start: {words[-1] if words else error}") from None
            self.close = stack.pop_all().close

    @property
    def pid(self) -> int:
        """A process whose end is the end of the box."""
        return self._process.pid

    def kill(self) -> None:
        """End the process, from any thread."""
        self.whole = False
        self._process.kill()

    def ask(self, orders: Sequence[Order]) -> list[Ended]:
        """Run at most BATCH orders, one after the other. The results are fewer when the box breaks off."""
        lines, offset = [], self._start
        for order, output in zip(orders, self._outputs, strict=False):
            os.ftruncate(output, 0)
            os.lseek(output, 0, os.SEEK_SET)  # the position is shared with the processes that wrote there before
            os.pwrite(self._contents, order.answer + order.rest, offset)
            limits = f"{int(1000 * order.cpu)} {order.memory} {int(1000 * order.wall)}"
            lines.append(f"{offset} {len(order.answer)} {len(order.rest)} {output} {limits}")
            offset += len(order.answer) + len(order.rest)
        results: list[Ended] = []
        try:
            self._send(lines)
            for order, output in zip(orders, self._outputs, strict=False):
                status, seconds, why = self._line(order.wall + GRACE_SECONDS, order.resident).split()
                written = os.pread(output, OUTPUT_BYTES, 0)
                results.append(Ended(int(status), float(seconds), "" if why == "-" else why, written))
        except TooLarge:
            self.kill()
            results.append(Ended(signal.SIGKILL, 0.0, "memory", b""))
        except (VerifierFault, ValueError):
            self.whole = False
        except BaseException:  # an interrupt: what is left would answer the next batch
            self.kill()
            raise
        return results

    def _send(self, lines: Sequence[str]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(("\n".join(lines) + "\n").encode())
        except (OSError, ValueError) as error:
            raise VerifierFault(f"it does not listen: {error}") from None

    def _line(self, seconds: float, resident: int | None = None) -> str:
        """The next line that the process writes. Raises VerifierFault or TooLarge."""
        assert self._process.stdout
        until = time.monotonic() + seconds
        while b"\n" not in self._read:
            left = max(0.0, until - time.monotonic())
            if not readable(self._process.stdout, min(left, WATCH_SECONDS) if resident else left):
                if resident and usage(self._process.pid)[1] > resident:
                    raise TooLarge
                if left > 0:
                    continue
                raise VerifierFault("it fell silent")
            chunk = os.read(self._process.stdout.fileno(), 65536)
            if not chunk:
                raise VerifierFault("it died")
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return line.decode("ascii", "replace")

    def _end(self) -> None:
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()


def readable(stream: IO[bytes], seconds: float) -> bool:
    """Whether something can be read within so many seconds. Unlike `select`, for any number of a descriptor."""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def usage(pid: int) -> tuple[float, int]:
    """(CPU seconds, user and system; resident bytes) of a process and all below it; zeros when it has gone."""
    seconds, resident = 0.0, 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                seconds += sum(each.cpu_times()[:4])
                resident += each.memory_info().rss
    return seconds, resident


def _memory_file(stack: contextlib.ExitStack) -> int:
    descriptor = os.memfd_create("octavo", 0)
    stack.callback(os.close, descriptor)
    return descriptor
