"""What Coq is given for one answer: the goal in our words first, the answer, then the check of the answer against that goal.

The names hold a nonce that no answer can know, and so do the marks that tell the parts of Coq's output apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stages.train.verifiers.proofs import Checked, printable, too_long


@dataclass(frozen=True)
class Job:
    """One answer to one goal. `statement` is trusted, the answer is not."""

    statement: str
    """`Theorem name binders : type.`"""
    answer: str
    """The proof: `Proof. ... Qed.`"""
    axioms: tuple[str, ...]
    cpu: float
    """CPU seconds."""
    memory: int
    """Bytes of address space."""

    @property
    def wall_seconds(self) -> float:
        """An honest proof does not sleep, so reaching this means that it got less than a tenth of a core."""
        return 5.0 + 10.0 * self.cpu


_STATEMENT = re.compile(r"\s*(?:Theorem|Lemma|Fact|Corollary|Proposition|Remark|Example)\s+[A-Za-z_][\w']*\s*([^\w'].*?)\.?\s*", re.DOTALL)
FORBIDDEN = (
    "Abort Add Admit Admitted Arguments Axiom Axioms Back BackTo Bind Canonical Cd Check Class Close Coercion CoFixpoint CoInductive "
    "Collection Combined Comments Compute Conjecture Conjectures Constraint Context Corollary Create Declare Definition Delimit Derive "
    "Drop End Equations Eval Example Existing Export Extract Extraction Fact Fail Fixpoint From Function Functional Generalizable Global "
    "Goal Hint Hypotheses Hypothesis Implicit Import Include Inductive Infix Info Inspect Instance Lemma Let Load Local Locate Ltac Ltac2 "
    "Module Monomorphic Notation Obligation Obligations Opaque Open Optimize Parameter Parameters Polymorphic Primitive Print Private "
    "Program Proposition Pwd Quit Record Redirect Register Remark Remove Require Reserved Reset Restart Save Scheme Search Section "
    "Separate Set Show Strategy Structure SubClass Suggest Tactic Test Theorem Time "
    "Timeout Transparent Typeclasses Undo Unset Variable Variables "
    "Variant admit give_up native_compute native_cast_no_check"
)
"""Commands that a proof does not need, and tactics that give up or run compiled code. `Proof`, `Qed`, `Defined` and `Unshelve` are left."""
_WORD = re.compile(r"(?<![\w.'])(" + "|".join(FORBIDDEN.split()) + r")(?![\w'])|(#\[)")


def refused(job: Job) -> Checked | None:
    """What is wrong with a job before Coq sees it."""
    if _STATEMENT.fullmatch(job.statement) is None:
        return Checked("broken", f"the statement is not `Theorem name : type.`: {printable(job.statement)}")
    found = _WORD.search(job.answer)
    return Checked("forbidden", f"uses `{found[0]}`, which answers may not") if found else too_long(job.answer)


def text(job: Job, nonce: str) -> str:
    """All that Coq reads. The marks are in the order goal, answer, check."""
    match = _STATEMENT.fullmatch(job.statement)
    assert match is not None  # refused() came before
    type_ = match[1].strip()
    return (
        f"Theorem octavo_goal_{nonce} {type_}.\nAdmitted.\nLocate {mark(1, nonce)}.\n"
        f"Theorem octavo_answer_{nonce} {type_}.\n{job.answer}\n\nLocate {mark(2, nonce)}.\n"
        f"Definition octavo_checked_{nonce} : ltac:(let goal := type of octavo_goal_{nonce} in exact goal) := octavo_answer_{nonce}.\n"
        f"Print Assumptions octavo_checked_{nonce}.\nLocate {mark(3, nonce)}.\n"
    )


def mark(number: int, nonce: str) -> str:
    """A name that nobody defines: asking Coq where it is prints it."""
    return f"octavo_mark_{number}_{nonce}"
