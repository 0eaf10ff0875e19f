"""What Lean's messages mean. They come from a process that has read the answer; only messages at our own lines can prove anything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from stages.train.verifiers.lean_text import Body, Job
from stages.train.verifiers.verdict import Checked, printable, unknown


class Message(NamedTuple):
    """One message; lines count from 1 at the start of the body (what comes from the header has lines below 1), columns from 0."""

    line: int
    column: int
    severity: str
    """error, warning, information, trace"""
    text: str
    kind: str = ""


(_, _SYNTAX), *_CLASSES = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))
"""(class of an error, pattern of its text); the first that fits says the class; none of them: `other`."""
_NOT_ERRORS = re.compile(r"^internal exception #\d+$")


def messages(items: Iterable[Mapping[str, Any]], first_line: int = 0) -> list[Message]:
    """Messages as the server and `lean --json` write them; `first_line` lines of header stand before the body. Raises for nonsense."""

    def message(item: Mapping[str, Any]) -> Message:
        severity, place = str(item["severity"]).replace("information", "info"), item["pos"]
        return Message(int(place["line"]) - first_line, int(place["column"]), severity, str(item["data"]), str(item.get("kind", "")))

    return [message(item) for item in items]


def read(job: Job, body: Body, output: Sequence[Message] | None) -> Checked:
    """The answer's own word: proved when nothing went wrong or was left out and our check lists allowed axioms alone."""
    if output is None:
        return unknown("Lean did not write its messages as JSON")
    errors = sorted(message for message in output if message.severity == "error")
    if errors and errors[0].line < 1:
        return unknown(f"Lean refuses the header: {errors[0].text}")
    if errors and errors[0].line < body.answer_line:
        return Checked("broken", f"the statement is refused: {printable(errors[0].text)}")
    if any(message.severity == "warning" and "sorry" in message.text for message in output):
        return Checked("forbidden", "uses `sorry`")
    if errors:
        return _failed(job, body, errors)
    printed = [message for message in output if message.severity == "info" and message.line == body.check_line + 2]
    return _rests_on(job, body.checked, printed)


def confirmed(job: Job, body: Body, output: Sequence[Message] | None) -> Checked:
    """The verdict of the new process that checks what was compiled: all that it says must be the list of axioms."""
    if output is None:
        return unknown("Lean cannot read what it compiled")
    if any(message.severity == "error" for message in output):
        return Checked("forbidden", "what was compiled does not prove the goal")
    return _rests_on(job, body.final, output)


def by_kernel(job: Job, written: bytes) -> Checked:
    """The verdict that the kernel's process wrote."""
    try:
        verdict = json.loads(written)
    except ValueError:
        return unknown("Lean's kernel gave no verdict")
    if "fault" in verdict:
        return unknown(verdict["fault"])
    return _allowed(job, verdict["axioms"]) if "axioms" in verdict else Checked("forbidden", printable(verdict["refused"]))


def _rests_on(job: Job, name: str, printed: Sequence[Message]) -> Checked:
    text = printed[0].text.strip() if len(printed) == 1 else ""
    if text == f"'{name}' does not depend on any axioms":
        return Checked("proved")
    start = f"'{name}' depends on axioms: ["
    words = " ".join(text.split())
    if not words.startswith(start) or not words.endswith("]"):
        return unknown("Lean's list of axioms is missing")
    return _allowed(job, words[len(start) : -1].split(", "))


def _allowed(job: Job, axioms: Sequence[str]) -> Checked:
    strange = [axiom for axiom in axioms if axiom not in job.axioms]
    return Checked("forbidden", f"rests on the axioms {printable(', '.join(strange))}") if strange else Checked("proved")


def _failed(job: Job, body: Body, errors: Sequence[Message]) -> Checked:
    first = next((message for message in errors if not _NOT_ERRORS.match(message.text)), errors[0])
    outcome = (
        "tactic" if first.kind.startswith("Tactic.") else next((name for name, words in _CLASSES if re.search(words, first.text)), "other")
    )
    if unparsed := next((message for message in errors if re.search(_SYNTAX, message.text)), None):
        first, outcome = unparsed, "syntax"
    elif first.line >= body.check_line and job.form == "file":
        return Checked("forbidden", f"does not prove the goal that it was given: {printable(first.text)}")
    line = first.line - body.answer_line + (1 if job.form == "file" else 0)
    return Checked(outcome, printable(f"line {max(1, line)}, column {first.column + 1}: {first.text}"))
