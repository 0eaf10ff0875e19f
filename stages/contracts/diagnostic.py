"""A message about a spec or a stage: what is wrong, where, why it matters, what to type. Plain data; no printing here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """1-based line and column; length in characters for the caret's underline."""

    file: str
    line: int
    column: int
    length: int = 1


@dataclass(frozen=True)
class Note:
    place: Place | None
    text: str


@dataclass(frozen=True)
class Diagnostic:
    code: str
    what: str
    why: str
    fix: str
    place: Place | None = None
    notes: tuple[Note, ...] = ()
    severity: str = "error"


def printable(text: str) -> str:
    """Text of strangers for a terminal: what would steer the terminal or turn the reading direction is escaped."""
    return "".join(character if character.isprintable() or character == "\n" else escaped(character) for character in text)


def escaped(character: str) -> str:
    """A character that is not printed, as Python writes it; a tab as blanks."""
    return "    " if character == "\t" else character.encode("unicode_escape", "backslashreplace").decode("ascii")


class StageError(Exception):
    """Ends a stage with exit code 1 and a diagnostic instead of a traceback."""

    def __init__(self, code: str, what: str, *, why: str, fix: str) -> None:
        super().__init__(what)
        self.code, self.what, self.why, self.fix = code, what, why, fix
