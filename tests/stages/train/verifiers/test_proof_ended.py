"""How the process of a proof ended, and whose fault that is: the same for Coq and Lean."""

import signal

import pytest

from stages.train.verifiers import coq_text, lean_text
from stages.train.verifiers.proof_ended import OVERFLOW, ended, used
from stages.train.verifiers.zygote_process import Answered

JOBS = {
    "Coq": coq_text.Job("Theorem t : True.", "Proof. auto. Qed.", (), 2.0, 2**31),
    "Lean": lean_text.Job("prelude", "theorem t : T", "x", "proof", (), 2.0, 2**31),
}


@pytest.mark.parametrize("checker", list(JOBS))
@pytest.mark.parametrize(
    ("answered", "outcome", "reason"),
    [
        (Answered(0, "", 0.1, b"anything"), None, ""),
        (Answered(1 << 8, "", 0.1, b"it said that the answer is wrong"), None, ""),
        (Answered(0, "", 2.04, b""), None, ""),
        (Answered(0, "", 2.06, b"in time, it says"), "timeout", "used more than 2 s of CPU time"),
        (Answered(signal.SIGPROF, "", 1.9, b""), "timeout", "used more than 2 s of CPU time"),
        (Answered(signal.SIGXCPU, "", 1.9, b""), "timeout", "used more than 2 s of CPU time"),
        (Answered(signal.SIGKILL, "output", 0.5, b"x"), "other", "wrote too much"),
        (Answered(signal.SIGKILL, "output", 2.5, b"x"), "timeout", "used more than 2 s of CPU time"),
        (Answered(signal.SIGKILL, "wall", 0.5, b"x"), "unknown", "the verifier got too little CPU time"),
        (Answered(signal.SIGKILL, "wall", 2.5, b"x"), "timeout", "used more than 2 s of CPU time"),
        (Answered(signal.SIGKILL, "", 0.5, b""), "unknown", "the proof's process was killed from outside"),
        (Answered(0, "memory", 0.0, b""), "other", "used more than 2048 MiB of memory"),
        (Answered(97 << 8, "", 0.0, None), "unknown", "the verifier could not start a process"),
        (Answered(97 << 8, "fork", 0.0, None), "unknown", "the verifier could not start a process"),
        (Answered(signal.SIGSEGV, "", 0.5, b""), "other", "{} ran out of stack"),
        (Answered(signal.SIGBUS, "", 0.5, b""), "other", "{} ran out of stack"),
        (Answered(signal.SIGABRT, "", 0.5, OVERFLOW.encode() + b". Aborting."), "other", "{} ran out of stack"),
        (Answered(signal.SIGABRT, "", 0.5, b"assertion"), "unknown", "{} crashed"),
        (Answered(signal.SIGILL, "", 0.5, b""), "unknown", "{} crashed"),
    ],
)
def test_whose_fault_it_was(checker, answered, outcome, reason):
    found = ended(answered, JOBS[checker], checker)
    if outcome is None:
        assert found is None
        return
    assert (found.outcome, found.reason, found.keep) == (outcome, reason.format(checker), False)


def test_what_ended_it_otherwise_is_never_the_answers_fault():
    assert used("wall", JOBS["Lean"], "Lean").outcome == used("anything new", JOBS["Lean"], "Lean").outcome == "unknown"
