"""What Lean is given for one answer: the goal in our words first, the answer, then the check of the answer against that goal.

The names hold a nonce that no answer can know. Lines are counted, so that a message is known to belong to the goal, the answer or the
check.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ruamel.yaml import YAML

from stages.train.verifiers.verdict import Checked, printable

ANSWER_BYTES = 256 * 1024
"""Longer answers are not checked: what a policy can write is far shorter, and what is nested less deeply fits Lean's stack."""
_SECRET = secrets.token_bytes(16)


@dataclass(frozen=True)
class Job:
    """One answer to one goal. Header and statement are trusted, the answer is not."""

    header: str
    statement: str
    """`theorem name binders : type`, with or without `:= by sorry` at its end."""
    answer: str
    form: Literal["proof", "tactics", "file"]
    axioms: tuple[str, ...]
    cpu: float
    """CPU seconds."""
    memory: int
    """Resident bytes."""


@dataclass(frozen=True)
class Body:
    """The text after the header. Lines count from 1; the answer begins on `answer_line`, the check on `check_line`."""

    text: str
    goal: str
    """The part of it before the answer."""
    goal_name: str
    answer_line: int
    check_line: int
    checked: str
    """Name of the theorem whose axioms are printed."""
    anew: str
    """Text that checks the same in a new process, over what was compiled from header and text."""
    final: str
    """Name of the theorem whose axioms count: there, or for the kernel."""


_STATEMENT = re.compile(r"\s*(?:theorem|lemma)\s+(\S+)\s(.*)", re.DOTALL)
_END = re.compile(r"\s*:=\s*(by\b)?\s*(sorry)?\s*$")
_COMMENT = re.compile(r"--[^\n]*|/-(?:(?!/-|-/).)*-/", re.DOTALL)
_HIDES = re.compile(r"[\"«]|\S(?:--|/-)")
_TOKEN = re.compile(r"@\[|#[A-Za-z_]\w*|[^\W\d][\w.'!?₀-₉]*")
_IMPORT = re.compile(r"\s*import\s+([\w.]+)[^\S\n]*(?:\n|$)")
_WORDS = {name: frozenset(words.split()) for name, words in YAML(typ="safe").load(Path(__file__).with_suffix(".yaml")).items()}


def refused(job: Job) -> Checked | None:
    """What is wrong with a job before Lean sees it."""
    if _STATEMENT.fullmatch(job.statement) is None:
        return Checked("broken", f"the statement is not `theorem name : type`: {printable(job.statement)}")
    tokens = _TOKEN.findall(without_comments(_without_imports(job)))
    for token, following in zip(tokens, [*tokens[1:], ""], strict=False):
        parts = [part for part in token.split(".") if part != "_root_"]
        is_bad = (
            {*_WORDS["forbidden"]} & {token, *parts}
            or {*_WORDS["forbidden_parts"]} & {*parts}
            or {*_WORDS["forbidden_roots"]} & {*parts[:1]}
        )
        if is_bad or token.startswith("#"):
            return Checked("forbidden", f"uses `{printable(token)}`, which answers may not")
        if token == "set_option" and not following.startswith(tuple(_WORDS["options"])):
            return Checked("forbidden", f"sets the option `{printable(following)}`, which answers may not")
    too_long = len(job.answer.encode("utf-8", "replace")) > ANSWER_BYTES
    return Checked("other", f"longer than {ANSWER_BYTES // 1024} KiB") if too_long else None


def nonce(job: Job) -> str:
    """The same for a goal each time, in this process, and no answer can know it."""
    return hmac.digest(_SECRET, repr((job.header, job.statement)).encode(), "sha256").hex()[:16]


def body(job: Job) -> Body:
    """The text that Lean checks after the header."""
    word = nonce(job)
    match = _STATEMENT.fullmatch(job.statement)
    assert match is not None  # refused() came before
    type_ = _END.sub("", match[2])
    goal = f"set_option autoImplicit false in\naxiom _root_.octavo_goal_{word} {type_}\n"  # a misspelt name must not become a variable
    name, answer = match[1], _without_imports(job)
    if job.form != "file":
        name = f"octavo_answer_{word}"
        answer = f"theorem {name} {type_} :={' by' if job.form == 'tactics' else ''}\n{answer}"
    checked, final = f"octavo_checked_{word}", f"octavo_final_{word}"
    answer_line = goal.count("\n") + 1
    check_line = answer_line + answer.count("\n") + 2
    prelude = "prelude\n" if re.match(r"\s*prelude\b", job.header) else ""
    anew = f"{prelude}import Answer\n{_check(final, word, f'_root_.{checked}')}"
    return Body(
        f"{goal}{answer}\n\n{_check(checked, word, name)}", goal, f"octavo_goal_{word}", answer_line, check_line, checked, anew, final
    )


def _check(name: str, word: str, proof: str) -> str:
    """From the root and with full names, whatever the answer has left open."""
    return (
        f"theorem _root_.{name} : type_of% @_root_.octavo_goal_{word} := @{proof}\n"
        f"set_option pp.fullNames true in\n#print axioms _root_.{name}\n"
    )


def without_comments(text: str) -> str:
    """A text without its comments. Where something may hide the marks of one, everything is kept: a text (`"--"`), a quoted name
    (`«--»`), a mark that does not follow white space, since Lean reads `<--` as `<-` and `-`, or comments within comments."""
    bare = _COMMENT.sub(" ", text)
    return text if _HIDES.search(text) or "/-" in bare or "-/" in bare else bare


def _without_imports(job: Job) -> str:
    """The answer without the imports at the top of a file that the header has made already."""
    made = set(re.findall(r"^\s*import\s+([\w.]+)", job.header, re.MULTILINE))
    answer = job.answer
    while job.form == "file" and (match := _IMPORT.match(answer)) and match[1] in made:
        answer = answer[match.end() :]
    return answer
