"""What Coq's output means. All of it comes from the answer's process; only what stands between our marks counts."""

from __future__ import annotations

import re

from stages.train.verifiers.coq_text import Job, mark
from stages.train.verifiers.proofs import Checked, Outcome, printable, unknown

_ERROR = re.compile(r"^Error:(.*?)(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
_KINDS: tuple[tuple[Outcome, re.Pattern[str]], ...] = (
    ("syntax", re.compile(r"^\s*(Syntax error|Lexer|Unterminated|Illegal character|Undefined token)", re.IGNORECASE)),
    ("timeout", re.compile(r"Timeout!|Out of memory")),
    (
        "type",
        re.compile(
            r"was not found in|has type .* while it is expected|Cannot infer|Illegal application|Found type|The type of this term is|"
            r"Unknown (interpretation|scope)|expects? .* arguments?|not a defined object|is not a type|Non exhaustive|No interpretation",
            re.DOTALL,
        ),
    ),
    (
        "tactic",
        re.compile(
            r"No such (goal|hypothesis|bound variable|assumption)|Unable to unify|Tactic failure|tactic|"
            r"Attempt to save an incomplete proof|"
            r"Not enough |No product|Not an? |[Bb]ullet|Cannot find witness|Found no subterm|is (already )?used|not convertible|"
            r"Cannot |cannot |"
            r"No (applicable|progress|assumption|focused|matching|primitive|evars)|not (complete|finished|solvable)|"
            r"Expects? a |Nothing to |Unable to (find|satisfy|apply)|Impossible to|No such|focused|does not|"
            r"Proof is not|All the remaining goals|The (reference|variable|relation|conclusion|term|hypothesis|proof)",
        ),
    ),
)


def read(job: Job, nonce: str, written: str) -> Checked:
    """The verdict. Proved only when all marks are there, nothing went wrong, and the check against the goal lists no other axiom."""
    written = written.replace("\r", "")
    places = [written.find(f"No object of basename {mark(number, nonce)}") for number in (1, 2, 3)]
    if places[0] < 0:
        return unknown("Coq stopped before the answer")
    goal = _ERROR.search(written[: places[0]])
    if goal:
        return Checked("broken", f"the statement is refused: {printable(goal[1])}")
    after = written[places[0] :]
    error = _ERROR.search(after if places[1] < 0 else written[places[0] : places[1]])
    if error:
        return Checked(_kind(error[1]), printable(error[1].replace(f"octavo_answer_{nonce}", "answer")) or "error")
    if places[1] < 0 or places[2] < places[1]:
        return Checked("syntax", "the answer does not end: a comment or text is open")
    check = written[places[1] : places[2]]
    error = _ERROR.search(check)
    if error and "not found" in error[1]:
        return Checked("tactic", "unfinished: the proof has no `Qed.`")
    if error:
        return Checked("forbidden", f"proves another statement than the goal: {printable(error[1])}")
    return _assumptions(job, check)


def _kind(message: str) -> Outcome:
    return next((kind for kind, pattern in _KINDS if pattern.search(message)), "other")


def _assumptions(job: Job, check: str) -> Checked:
    if "Closed under the global context" in check:
        return Checked("proved")
    _, found, listed = check.partition("Axioms:\n")
    if not found or "Section Variables:" in check:
        return Checked("forbidden", "rests on something that is no axiom of the library")
    names = []
    for line in listed.split("\n\n")[0].splitlines():
        if line and not line[0].isspace():
            names.append(line.split()[0] if re.fullmatch(r"[\w.']+( :.*)?", line) else line)
    strange = [name for name in names if name not in job.axioms]
    if strange or not names:
        return Checked("forbidden", f"rests on the axioms {printable(', '.join(strange))}")
    return Checked("proved")
