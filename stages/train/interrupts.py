"""How a stage ends when it is told to: signals, and the end of the dvc that started it.

A signal ends what runs with KeyboardInterrupt, except where a stage holds it back: then it is remembered. So a ledger's line or a
table is never cut in two by Ctrl-C, and a signal whose exception somebody swallowed is not lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 120.0
"""Time that a process has to end after its dvc has gone, before SIGKILL: the ledger then shows a start without an end."""
_PR_SET_PDEATHSIG = 1


class _Told:
    """What this process was told, and whether it may be interrupted now."""

    def __init__(self) -> None:
        self.by: str | None = None
        self.held = False


_told = _Told()


def heed() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP end this process in order, and so does the end of the dvc that started it. A signal that
    was ignored stays ignored (nohup). Raises KeyboardInterrupt when that dvc has gone already."""
    for number in HEEDED:
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGTERM:
            signal.signal(number, _stop)
    _end_with_dvc()


def told() -> str | None:
    """The sentence about the first signal that came, such as `stopped by SIGTERM`; None when none did."""
    return _told.by


def check() -> None:
    """Raises KeyboardInterrupt when a signal has come: it may have been swallowed by a library, or held back."""
    if _told.by is not None:
        raise KeyboardInterrupt(_told.by)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Inside, signals are only remembered."""
    before, _told.held = _told.held, True
    try:
        yield
    finally:
        _told.held = before


@contextlib.contextmanager
def let_in() -> Iterator[None]:
    """Inside, signals interrupt. Raises KeyboardInterrupt at once when one has come before."""
    before, _told.held = _told.held, False
    try:
        check()
        yield
    finally:
        _told.held = before


def _stop(number: int, frame: object) -> None:
    _told.by = _told.by or f"stopped by {signal.Signals(number).name}"
    if not _told.held:
        raise KeyboardInterrupt(_told.by)


def _end_with_dvc() -> None:
    """Killing dvc leaves its children running; an orphan would train on and write beside the next attempt. Linux only.

    The kernel tells of the end of the parent. That may be a shell which outlives dvc, so the nearest dvc above is watched as well.
    A stage that somebody started by hand, with nohup for example, may outlive its shell.
    """
    if "DVC_STAGE" not in os.environ or not Path("/proc/self/stat").exists():
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    above = dvc_above(os.getpid())
    if above is None:
        _told.by = "stopped because its dvc has gone"
        raise KeyboardInterrupt(_told.by)
    with contextlib.suppress(OSError, AttributeError):  # no such call before Linux 5.3
        threading.Thread(target=_watch, args=(os.pidfd_open(above),), daemon=True, name="watch-dvc").start()


def _watch(process: int) -> None:
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    waiting.poll()
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def dvc_above(process: int) -> int | None:
    """Process id of the nearest dvc among the ancestors of a process."""
    above = _parent(process)
    while above is not None:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{above}/cmdline").read_bytes().split(b"\0")[:4]
            if any(os.path.basename(word) in (b"dvc", b"dvc.exe") for word in words) or b"dvc" in words:
                return above
        above = _parent(above)
    return None


def _parent(process: int) -> int | None:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[1]) or None
