"""How a stage ends: signals, and the end of the dvc that started it.

A signal ends what runs with KeyboardInterrupt, except where a stage defers it: then it is remembered. So Ctrl-C never cuts a ledger's line
or a table in two, and a signal whose exception a library swallowed is not lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Iterator

import psutil

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1


class _SignalState:
    """The first signal that came, and whether signals are deferred now."""

    def __init__(self) -> None:
        self.sentence: str | None = None
        self.deferred = False


_state = _SignalState()


def install_handlers() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP end this process in order, and so does the end of the dvc that started it: killing dvc leaves
    its children running, and an orphan would write beside the next attempt. A signal that was ignored stays ignored (nohup)."""
    for number in HANDLED:
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGTERM:
            signal.signal(number, _stop)
    if "DVC_STAGE" in os.environ:  # a stage that was started by hand may outlive its shell
        _end_with_dvc()


def end_with_parent(number: signal.Signals) -> None:
    """Get this signal when the parent process ends, however it ends. Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def _end_with_dvc() -> None:
    """Get SIGTERM when the dvc above ends. The parent is often a shell, which outlives dvc: a thread waits for dvc itself.
    Raises KeyboardInterrupt when it has ended already."""
    end_with_parent(signal.SIGTERM)
    dvc = next((process for process in psutil.Process().parents() if _is_dvc(process)), None)
    if dvc is None:
        _state.sentence = "stopped because its dvc has ended"
        raise KeyboardInterrupt(_state.sentence)

    def wait() -> None:
        dvc.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="wait-for-dvc").start()


def _is_dvc(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(os.path.basename(word) in ("dvc", "dvc.exe") for word in process.cmdline()[:4])
    return False


def received() -> str | None:
    """The sentence about the first signal that came, such as `stopped by SIGTERM`; None when none did."""
    return _state.sentence


def check() -> None:
    """Raises KeyboardInterrupt when a signal has come: a library may have swallowed it, or it was deferred."""
    if _state.sentence is not None:
        raise KeyboardInterrupt(_state.sentence)


@contextlib.contextmanager
def deferred(is_deferred: bool = True) -> Iterator[None]:
    """Inside, signals are only remembered."""
    before, _state.deferred = _state.deferred, is_deferred
    try:
        yield
    finally:
        _state.deferred = before


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Inside, signals interrupt. Raises KeyboardInterrupt at once when one has come before."""
    with deferred(False):
        check()
        yield


def _stop(number: int, frame: object) -> None:
    _state.sentence = _state.sentence or f"stopped by {signal.Signals(number).name}"
    if not _state.deferred:
        raise KeyboardInterrupt(_state.sentence)
