"""The box: a sandboxed program that runs answers, each in a process forked for it.

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
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from stages.train.verifiers import isolation
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.verdict import VerifierFault

BATCH = 8
"""Most answers of one batch; each needs a descriptor, of which a process may have no more than 1,024."""
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
    """`wall` or `memory` where it was ended for that, a word of the program's own, or empty."""
    written: bytes


class Box:
    """A running box. The thread that makes it must live as long as it. Raises VerifierFault when it does not start."""

    def __init__(self, program: Program, tier: Tier) -> None:
        filter_ = program.filter()
        uid = isolation.uid_to_drop_to() if tier == "seccomp" else None
        self.whole = True
        """Whether it still answers."""
        self._uses, self._unread = program.uses, b""
        self._contents, self._errors, *self._outputs = self._files = [os.memfd_create("octavo", 0) for _ in range(2 + BATCH)]
        self._start = os.write(self._contents, filter_)
        try:
            self._process = isolation.start(program, tier, (self._contents, *self._outputs), self._errors)
        except OSError as error:
            self._close_files()
            raise VerifierFault(f"the sandbox did not start: {error}") from None
        try:
            self._send(f"{-1 if uid is None else uid} {self._contents} {self._start} {OUTPUT_BYTES}\n")
            if (line := self._line(START_SECONDS)) != "ready":
                raise VerifierFault(f"it said {line[:80]!r}")
        except (VerifierFault, OSError) as error:
            self._process.kill()
            words = isolation.last_line(self._errors)
            self.close()
            raise VerifierFault(f"the sandbox did not start: {words or error}") from None

    def ask(self, orders: Sequence[Order]) -> list[Ended]:
        """Run at most BATCH orders, one after the other. The results are fewer when the box breaks off."""
        self._uses -= len(orders)
        self.whole = self._uses > 0
        results: list[Ended] = []
        try:
            self._write(orders)
            for order, output in zip(orders, self._outputs, strict=False):
                line = self._line(order.wall + GRACE_SECONDS, order.resident)
                if line in ("wall", "memory"):
                    self.kill()
                    results.append(Ended(0, 0.0, line, b""))
                    break
                status, seconds, why = line.split()
                results.append(Ended(int(status), float(seconds), "" if why == "-" else why, os.pread(output, OUTPUT_BYTES, 0)))
        except (VerifierFault, OSError, ValueError):
            self.whole = False
        except BaseException:  # an interrupt: what is left would answer the next batch
            self.kill()
            raise
        return results

    @property
    def pid(self) -> int:
        """A process whose end is the end of the box."""
        return self._process.pid

    def kill(self) -> None:
        """End the box, from any thread."""
        self.whole = False
        self._process.kill()

    def close(self) -> None:
        """End the box and wait until it has ended."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        self._close_files()

    def _close_files(self) -> None:
        while self._files:
            os.close(self._files.pop())

    def _write(self, orders: Sequence[Order]) -> None:
        lines, offset = [], self._start
        for order, output in zip(orders, self._outputs, strict=False):
            os.ftruncate(output, 0)
            os.lseek(output, 0, os.SEEK_SET)  # the position is shared with the processes that wrote there before
            os.pwrite(self._contents, order.answer + order.rest, offset)
            limits = f"{int(1000 * order.cpu)} {order.memory} {int(1000 * order.wall)}"
            lines.append(f"{offset} {len(order.answer)} {len(order.rest)} {output} {limits}\n")
            offset += len(order.answer) + len(order.rest)
        self._send("".join(lines))

    def _send(self, lines: str) -> None:
        """Write to its standard input: far less than the buffer of a pipe. Raises OSError."""
        assert self._process.stdin
        self._process.stdin.write(lines.encode())

    def _line(self, wall: float, resident: float = math.inf) -> str:
        """The next line that it writes; `wall` after so many seconds, `memory` when it uses more bytes. Raises VerifierFault."""
        assert self._process.stdout
        until = time.monotonic() + wall
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        while b"\n" not in self._unread:
            left = max(0.0, until - time.monotonic())
            if poll.poll(1000 * (left if math.isinf(resident) else min(left, WATCH_SECONDS))):
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    raise VerifierFault("it died")
                self._unread += chunk
            elif left == 0:
                return "wall"
            elif memory_used(self.pid) > resident:
                return "memory"
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("ascii", "replace")


def memory_used(pid: int) -> int:
    """Resident bytes of a process and all below it; 0 when it has gone."""
    resident = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                resident += member.memory_info().rss
    return resident
