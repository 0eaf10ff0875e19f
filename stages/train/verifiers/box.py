"""The box: a sandboxed program that runs answers, each in a process forked for it.

The process in the box never reads an answer: each forked process reads its own part of a file that lies in memory, and writes to an
output file of its own. So no process that runs an answer descends from one that has seen another answer or what another answer wrote.
What an answer's process writes is untrusted; how it ended is said by its parent.

Standard input of the program, in lines of numbers: `<uid or -1> <descriptor of the contents> <size of the filter, which they begin
with> <output bytes>`, then for each answer `<offset> <size of the answer> <size of the rest> <descriptor of the output> <CPU ms>
<memory>`. Standard output: `ready`, then for each answer in order `<status of wait> <CPU seconds> <word of the program's own, or ->`.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from stages.train.verifiers import isolation
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.verdict import Checked, VerifierFault

BATCH = 8
"""Most answers of one batch; each needs a descriptor, of which a process may have no more than 1,024."""
START_SECONDS = 60.0
OUTPUT_BYTES = 2**20
"""What the host reads of what one answer's process wrote."""
WATCH_SECONDS = 0.05
IDLE_SECONDS = 2.0
"""A box in which nothing has run for so long waits for something that will not come."""
STARVED_SHARE = 0.25
"""Of its time, in which a starved process at least was ready to run and had no core."""


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
    is_second: bool = False
    """Whether it is for the second of the verifier's programs."""

    @property
    def wall(self) -> float:
        """Seconds. An answer that is not done by then got less than a tenth of a core, or waits."""
        return 5.0 + 10.0 * self.cpu


@dataclass(frozen=True)
class Ended:
    """How an answer's process ended. `written` is untrusted."""

    status: int
    """As from os.wait: signal in the low seven bits, exit code above."""
    cpu: float
    """CPU seconds, user and system."""
    why: str
    """`starved`, `waited` or `memory` where the host ended the box for that, a word of the program's own, or empty."""
    written: bytes
    left: bytes = b""
    """A file that it left, which the program put behind the orders; untrusted."""


Asking = Generator[Order, Ended, Checked]
"""What a verifier does for one job: it asks a box for one thing after the other, and ends with the verdict."""


class Box:
    """A running box. The thread that makes it must live as long as it. Raises VerifierFault when it does not start."""

    def __init__(self, program: Program, tier: Tier) -> None:
        filter_ = program.filter()
        uid = isolation.uid_to_drop_to() if tier == "seccomp" else None
        self.whole = True
        """Whether it still answers."""
        self._unread = b""
        self._contents, self._errors, *self._outputs = self._files = [os.memfd_create("octavo", 0) for _ in range(2 + BATCH)]
        self._start = self._end = os.write(self._contents, filter_)
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
            self.kill()
            words = isolation.last_line(self._errors)
            self.close()
            raise VerifierFault(f"the sandbox did not start: {words or error}") from None

    def ask(self, orders: Sequence[Order]) -> list[Ended]:
        """Run at most BATCH orders, one after the other. The results are fewer when the box breaks off."""
        results: list[Ended] = []
        try:
            self._write(orders)
            for order, output in zip(orders, self._outputs, strict=False):
                line = self._line(order.wall, order.resident)
                if " " not in line:
                    self.kill()
                    results.append(Ended(0, 0.0, line, b""))
                    break
                status, seconds, why = line.split()
                left = os.pread(self._contents, os.fstat(self._contents).st_size - self._end, self._end)
                written = os.pread(output, OUTPUT_BYTES, 0)
                results.append(Ended(int(status), float(seconds), "" if why == "-" else why, written, left))
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
        os.ftruncate(self._contents, self._start)
        for order, output in zip(orders, self._outputs, strict=False):
            os.ftruncate(output, 0)
            os.lseek(output, 0, os.SEEK_SET)  # the position is shared with the processes that wrote there before
            os.pwrite(self._contents, order.answer + order.rest, offset)
            lines.append(f"{offset} {len(order.answer)} {len(order.rest)} {output} {int(1000 * order.cpu)} {order.memory}\n")
            offset += len(order.answer) + len(order.rest)
        self._end = offset
        self._send("".join(lines))

    def _send(self, lines: str) -> None:
        """Write to its standard input: far less than the buffer of a pipe. Raises OSError."""
        assert self._process.stdin
        self._process.stdin.write(lines.encode())

    def _line(self, wall: float, resident: float = math.inf) -> str:
        """The next line that it writes, or why it gets no more time: `starved`, `waited`, or `memory`. Raises VerifierFault."""
        assert self._process.stdout
        until, watch = time.monotonic() + wall, IDLE_SECONDS if math.isinf(resident) else WATCH_SECONDS
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        seen, looked = Activity(), time.monotonic()
        while b"\n" not in self._unread:
            now = time.monotonic()
            if poll.poll(1000 * max(0.0, min(until - now, watch))):
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    raise VerifierFault("it died")
                self._unread += chunk
            elif now >= until:
                return "starved" if Activity.below(self.pid).is_starved(wall) else "waited"
            elif not math.isinf(resident) and memory_used(self.pid) > resident:
                return "memory"
            elif now - looked > IDLE_SECONDS:
                before, seen, looked = seen, Activity.below(self.pid), now
                if seen == before and seen.is_asleep:
                    return "waited"
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("ascii", "replace")


@dataclass(frozen=True)
class Activity:
    """What the processes of a box have done so far. The kernel counts it, so an answer cannot write it."""

    states: frozenset[str] = frozenset()
    nanoseconds: tuple[tuple[int, int], ...] = ()
    """(running, ready to run without a core) of each thread; empty where the kernel does not count them."""

    @classmethod
    def below(cls, pid: int) -> Activity:
        """Of a process and all below it."""
        paths = [path for member in members(pid) for path in sorted(Path(f"/proc/{member.pid}/task").glob("*"))]
        states, nanoseconds = [], []
        for path in paths:
            with contextlib.suppress(OSError):
                states.append((path / "stat").read_text().rsplit(")", 1)[1].split()[0])
                running, ready, _ = map(int, (path / "schedstat").read_text().split())
                nanoseconds.append((running, ready))
        return cls(frozenset(states), tuple(nanoseconds))

    @property
    def is_asleep(self) -> bool:
        """Whether all wait, and for no disk."""
        return self.states == {"S"} and bool(self.nanoseconds)

    def is_starved(self, wall: float) -> bool:
        """Whether one had no core for a share of its time, or waits for a disk, or was stopped from outside."""
        longest = max((ready for _, ready in self.nanoseconds), default=math.inf)
        return bool({"D", "T"} & self.states) or longest > STARVED_SHARE * wall * 1e9


def members(pid: int) -> list[psutil.Process]:
    """A process and all below it; none when it has gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def memory_used(pid: int) -> int:
    """Resident bytes of a process and all below it; 0 when it has gone."""
    resident = 0
    for member in members(pid):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            resident += member.memory_info().rss
    return resident
