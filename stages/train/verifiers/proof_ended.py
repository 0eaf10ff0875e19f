"""How the process of a proof ended, and what that alone means: shared by Coq and Lean. What it wrote is read elsewhere."""

from __future__ import annotations

import signal
from typing import Protocol

from stages.train.verifiers import proofs
from stages.train.verifiers.proofs import Checked
from stages.train.verifiers.zygote_process import Answered

OVERFLOW = "Stack overflow detected"
"""What Lean says when an answer was nested too deeply for its stack, before it aborts. Whoever forges it only fails."""
_CPU_SLACK = 0.05
"""CPU seconds by which the accounting may exceed the limit."""
_STACK = (signal.SIGSEGV, signal.SIGBUS)
"""An answer nested too deeply ends so where the stack gives out inside C code, and with the checker's own error where it gives out inside
its own. Which of the two moves with the address layout of each zygote (11 of 100); the depth does not, so both are the answer's failure."""


class Bounded(Protocol):
    """What a job may use."""

    @property
    def cpu(self) -> float:
        """CPU seconds."""

    @property
    def memory(self) -> int:
        """Bytes."""


def ended(answered: Answered, job: Bounded, checker: str) -> Checked | None:
    """The verdict on a process that did not come to its own end; None for one that did. `checker` is the program's name, for words."""
    if answered.why == "memory":
        return used("memory", job, checker)
    if answered.written is None:
        return proofs.unknown("the verifier could not start a process")
    killed = answered.status & 127
    if killed in (signal.SIGPROF, signal.SIGXCPU) or answered.cpu > job.cpu + _CPU_SLACK:
        return used("cpu", job, checker)
    if answered.why:
        return used(answered.why, job, checker)
    if killed in _STACK or (killed == signal.SIGABRT and OVERFLOW.encode() in answered.written):
        return used("stack", job, checker)
    if killed == signal.SIGKILL:
        return proofs.unknown("the proof's process was killed from outside")
    return proofs.unknown(f"{checker} crashed") if killed else None


def used(what: str, job: Bounded, checker: str) -> Checked:
    """A job that was ended because it used too much of something; whatever else ended it (`wall`) is not its fault."""
    if what == "cpu":
        return Checked("timeout", f"used more than {job.cpu:g} s of CPU time", keep=False)
    if what == "memory":
        return Checked("other", f"used more than {job.memory // 2**20} MiB of memory", keep=False)
    if what == "output":
        return Checked("other", "wrote too much", keep=False)
    if what == "stack":
        return Checked("other", f"{checker} ran out of stack", keep=False)
    return proofs.unknown("the verifier got too little CPU time")
