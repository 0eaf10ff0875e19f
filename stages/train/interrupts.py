"""How a stage ends: signals, and the end of the dvc that started it.

A signal ends what runs with KeyboardInterrupt, except where a stage defers it: then it is remembered. So Ctrl-C never cuts a ledger's line
or a table in two, and a signal whose exception a library swallowed is not lost. While a run trains, SIGTERM waits until the step is saved.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Protocol

import psutil

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TOGETHER_SECONDS = 1.0
"""SIGTERM within this time of the first is the same one: a scheduler sends it to all processes of a job, and each may pass it on."""
_PR_SET_PDEATHSIG = 1


class Flag(Protocol):
    """An event of multiprocessing."""

    def is_set(self) -> bool: ...


class _SignalState:
    """The first signal that came, when (in seconds of the monotonic clock), and what is done about signals now."""

    def __init__(self) -> None:
        self.sentence: str | None = None
        self.at = 0.0
        self.deferred = False
        self.saves_first = False
        self.is_to_save = False
        self.asked: Flag | None = None


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


@contextlib.contextmanager
def saving_first() -> Iterator[None]:
    """Inside, whoever trains asks `is_to_save` after each step, so that SIGTERM only has to be remembered. Another signal, or SIGTERM once
    more, ends at once."""
    _state.saves_first = True
    try:
        yield
    finally:
        _state.saves_first = False


def is_to_save() -> bool:
    """Whether SIGTERM has come while steps are saved first: save the step and train no further."""
    return _state.is_to_save or (_state.asked is not None and _state.asked.is_set())


def ask(flag: Flag) -> None:
    """This process is one of several that train. SIGTERM means nothing to it: its stage gets one too, and sets the flag."""
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # not SIG_IGN, which programs that it starts would inherit
    _state.asked = flag


def _stop(number: int, frame: object) -> None:
    if _state.sentence is None:
        _state.sentence, _state.at = f"stopped by {signal.Signals(number).name}", time.monotonic()
        _state.is_to_save = number == signal.SIGTERM and _state.saves_first
    elif number != signal.SIGTERM or time.monotonic() - _state.at > TOGETHER_SECONDS:
        _state.is_to_save = False
    if not _state.deferred and not _state.is_to_save:
        raise KeyboardInterrupt(_state.sentence)
