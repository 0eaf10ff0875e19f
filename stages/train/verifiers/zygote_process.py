"""The host's end of one zygote, whatever it verifies: start it in a tier, exchange frames, end it. Every trouble is a VerifierFault."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO

from stages.train.verifiers import isolation, seccomp
from stages.train.verifiers.faults import VerifierFault
from stages.train.verifiers.isolation import Tier

START_SECONDS = 60.0
GRACE_SECONDS = 20.0
"""How much longer than a job's wall time the host waits before it calls the zygote dead."""
_FRAME_BYTES = 8 * 2**20
_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class Answered:
    """What came back for a job. `written` is the candidate's own, untrusted; None when its process was never locked up."""

    status: int
    """As from os.wait: signal in the low seven bits, exit code above."""
    why: str
    """Why the zygote ended it: `wall`, `output`, `fork: ...`, or empty."""
    cpu: float
    """CPU seconds, user and system."""
    written: bytes | None


def _child_pid(info: int) -> int | None:
    """The pid that bubblewrap reports (its own, when it does not come that far, ends the inside too: --die-with-parent)."""
    said = b""
    with os.fdopen(info, "rb", buffering=0) as stream:
        until = time.monotonic() + START_SECONDS
        while b"}" not in said and select.select([stream], [], [], max(0.0, until - time.monotonic()))[0]:
            chunk = stream.read(4096)
            if not chunk:
                break
            said += chunk
    try:
        return int(json.loads(said)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return None


@functools.cache
def _starter() -> ThreadPoolExecutor:
    """The thread that starts every zygote. The kernel ends a zygote with the thread that started it (PR_SET_PDEATHSIG), not with the
    process, so it must be one that lives as long as the process does."""
    return ThreadPoolExecutor(1, "octavo-starter")


os.register_at_fork(after_in_child=_starter.cache_clear)  # in a fork that thread is gone


class ZygoteProcess:
    """A running program inside a tier; `also`, `links` and `lane` are as for bubblewrap. Raises VerifierFault when it does not start."""

    jobs = 0
    """Jobs asked so far."""

    def __init__(
        self, tier: Tier, command: Sequence[str], also: Sequence[str] = (), links: Sequence[tuple[str, str]] = (), lane: int = 0
    ) -> None:
        self.tier, self.owner, self.lane = tier, os.getpid(), lane
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._child: int | None = None
        self._come = bytearray()
        try:
            self.process = self._start(command, also, links)
        except OSError as error:
            self._errors.close()
            raise VerifierFault(f"the zygote did not start: {error}") from None

    @property
    def pid(self) -> int:
        """A process whose end is the end of the zygote: the init of its process namespace, or the zygote itself."""
        return self._child or self.process.pid

    @property
    def alive(self) -> bool:
        """Whether this side still holds it; a process that has died shows at the next job."""
        return self.process.stdin is not None and not self.process.stdin.closed

    def close(self) -> None:
        """End the zygote and reap it. In a fork of the process that started it, only let go of it."""
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()
        if self.owner != os.getpid() or self.process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)  # the inside first: bubblewrap then reaps it and ends, and nothing is orphaned
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def said(self) -> str:
        """Last line that the process wrote to its standard error."""
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            return ""
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self.process.returncode}"

    def _start(self, command: Sequence[str], also: Sequence[str], links: Sequence[tuple[str, str]]) -> subprocess.Popen[bytes]:
        if self.tier == "seccomp":
            return self._popen(command, ())
        info, info_end = os.pipe()
        try:
            with tempfile.TemporaryFile() as filter_:
                filter_.write(seccomp.program())
                filter_.seek(0)
                wrapped = isolation.bubblewrap_command(command, filter_.fileno(), info_end, also, links, self.lane)
                process = self._popen(wrapped, (filter_.fileno(), info_end))
        finally:
            os.close(info_end)
        self._child = _child_pid(info)
        return process

    def _popen(self, command: Sequence[str], fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
        return (
            _starter()
            .submit(
                subprocess.Popen,
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=isolation.ENVIRONMENT,
                pass_fds=fds,
                start_new_session=True,
                bufsize=0,
            )
            .result()
        )

    def send(self, *contents: bytes) -> None:
        """Send frames, all at once."""
        view = memoryview(b"".join([struct.pack("<I", len(content)) + content for content in contents]))
        assert self.process.stdin is not None
        try:
            while view:
                view = view[self.process.stdin.write(view) :]
        except (OSError, ValueError) as error:
            raise VerifierFault(f"it does not listen: {error}") from None

    def receive(self, until: float) -> bytes:
        """The next frame; `until` is a time of the monotonic clock."""
        (size,) = struct.unpack("<I", self._read(4, until))
        if size > _FRAME_BYTES:
            raise VerifierFault(f"it sent a frame of {size} bytes")
        return self._read(size, until)

    def _read(self, size: int, until: float) -> bytes:
        """So many bytes, of which some may have come with those before."""
        assert self.process.stdout is not None
        content = self._come
        while len(content) < size:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise VerifierFault("it fell silent")
            chunk = os.read(self.process.stdout.fileno(), _CHUNK_BYTES)
            if not chunk:
                raise VerifierFault("it died")
            content += chunk
        self._come = content[size:]
        return bytes(content[:size])
