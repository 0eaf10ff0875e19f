"""What Lean's messages mean. They come from a process that has read the answer; only messages at our own lines can prove anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.train.verifiers.lean_text import Body, Job
from stages.train.verifiers.verdict import Checked, printable, unknown


@dataclass(frozen=True)
class Message:
    """One message; lines count from 1 at the start of the body (what comes from the header has lines below 1), columns from 0."""

    severity: str
    """error, warning, information, trace"""
    line: int
    column: int
    text: str
    kind: str = ""


_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "timeout",
        re.compile(r"\(deterministic\) timeout|maximum number of heartbeats|maximum recursion depth|deep recursion|[Ss]tack overflow"),
    ),
    ("type", re.compile(r"^\s*[Ff]ailed to (synthesize|infer|elaborate)")),
    (
        "tactic",
        re.compile(
            r"^\s*(unsolved goals|[Nn]o goals|[Tt]actic .{0,80}(failed|not)|tactic|Tactic|.{0,40}\bfailed\b|.{0,40}made no progress|"
            r"[Dd]id not find|.{0,20}motive is not type correct|The rfl tactic|omega could not|linarith|[Cc]ase tag|"
            r"[Uu]nused alternative|[Aa]lternative|[Ii]nvalid alternative|[Uu]nable to (derive|prove|solve|find)|"
            r"[Cc]ould not unify|The goal|[Ii]nsufficient number of|[Tt]oo many|.{0,40}not an inductive|[Uu]nexpected number of)"
        ),
    ),
    (
        "type",
        re.compile(
            r"[Tt]ype mismatch|[Uu]nknown (identifier|constant|namespace|universe|free)|[Ff]ailed to (synthesize|infer|elaborate|unify)|"
            r"[Ff]unction expected|[Dd]on't know how to synthesize|[Ii]nvalid|[Aa]mbiguous|[Cc]ould not synthesize|has type|"
            r"typeclass instance|is expected|cannot coerce|numerals|overloaded|universe|unexpected bound|does not exist|"
            r"Fields missing|no such field|not a structure|\(kernel\)|[Ee]xpected type|constructor"
        ),
    ),
)
_SYNTAX = re.compile(
    r"^\s*(unexpected (token|identifier|end of input|character|syntax)|expected |unterminated |unknown tactic\b|invalid escape|missing )|"
    r"expected command"
)
_NOT_ERRORS = re.compile(r"^internal exception #\d+$")
_AXIOMS = re.compile(r"depends on axioms:\s*\[([^\]]*)\]")


def messages(items: Iterable[Mapping[str, Any]], first_line: int = 0) -> list[Message]:
    """Messages as the REPL and `lean --json` write them; `first_line` lines of header stand before the body. Raises for nonsense."""
    return [
        Message(
            {"info": "information"}.get(str(item["severity"]), str(item["severity"])),
            int(item["pos"]["line"]) - first_line,
            int(item["pos"]["column"]),
            str(item["data"]),
            str(item.get("kind", "")),
        )
        for item in items
    ]


def read(job: Job, body: Body, output: Sequence[Message], has_sorry: bool = False) -> Checked:
    """The verdict. Proved only when nothing went wrong, nothing was left out, and our check lists no other axiom than the allowed."""
    errors = [message for message in output if message.severity == "error"]
    before = [message for message in errors if message.line < body.answer_line]
    if any(message.line < 1 for message in before):
        return unknown(f"Lean refuses the header: {before[0].text}")
    if before:
        return Checked("broken", f"the statement is refused: {printable(before[0].text)}")
    if has_sorry or any(message.severity == "warning" and "sorry" in message.text for message in output):
        return Checked("forbidden", "uses `sorry`")
    if errors:
        return _failed(job, body, errors)
    printed = [message for message in output if message.severity == "information" and message.line == body.check_line + 2]
    if len(printed) != 1:
        return unknown("Lean's list of axioms is missing")
    return _rests_on(job, body.checked, printed[0].text)


def confirmed(job: Job, body: Body, output: Sequence[Message]) -> Checked:
    """The verdict of the new process that checks what was compiled: all that it says must be the list of axioms."""
    if any(message.severity == "error" for message in output):
        return Checked("forbidden", "what was compiled does not prove the goal")
    if len(output) != 1:
        return unknown("Lean's list of axioms is missing")
    return _rests_on(job, body.final, output[0].text)


def _rests_on(job: Job, name: str, text: str) -> Checked:
    axioms = _AXIOMS.search(text)
    if not text.startswith(f"'{name}' "):
        return unknown("Lean's list of axioms is missing")
    if axioms is None:
        return Checked("proved") if "does not depend on any axioms" in text else unknown("Lean's list of axioms cannot be read")
    strange = [name for name in (part.strip() for part in axioms[1].split(",")) if name not in job.axioms]
    return Checked("forbidden", f"rests on the axioms {printable(', '.join(strange))}") if strange else Checked("proved")


def _failed(job: Job, body: Body, errors: Sequence[Message]) -> Checked:
    ordered = sorted(errors, key=lambda message: (message.line, message.column))
    parse = next((message for message in ordered if _SYNTAX.search(message.text)), None)
    if parse is not None:
        return Checked("syntax", _words(job, body, parse))
    first = next((message for message in ordered if not _NOT_ERRORS.match(message.text)), ordered[0])
    if first.line >= body.check_line and job.form == "file":
        return Checked("forbidden", f"does not prove the goal that it was given: {printable(first.text)}")
    outcome = next((kind for kind, pattern in _KINDS if pattern.search(first.text)), "other")
    if first.kind.startswith("Tactic."):
        outcome = "tactic"
    return Checked(outcome, _words(job, body, first))


def _words(job: Job, body: Body, message: Message) -> str:
    line = message.line - body.answer_line + (1 if job.form == "file" else 0)
    return printable(f"line {max(1, line)}, column {message.column + 1}: {message.text}")
