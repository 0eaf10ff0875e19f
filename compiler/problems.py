"""Problems of a spec: collecting them, and the words that their sentences share."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stages.contracts.diagnostic import Diagnostic, Place

SECRET = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|AKIA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{30,}|xox[abprs]-[A-Za-z0-9-]{10,}|local-[0-9a-f]{40}|[0-9a-f]{40,})(?![A-Za-z0-9_-])"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""What looks like a key of a service. It must never enter a card, and never a message either."""


class Rejected(Exception):
    """The author's input cannot be compiled. Carries every diagnostic found so far, warnings included.

    `sources` holds the lines of files that could not even be parsed, for the excerpts.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = in_order(diagnostics)
        self.sources: dict[str, list[str]] = {}
        super().__init__("; ".join(f"{found.code} {found.what}" for found in self.diagnostics))


class Fault(Exception):
    """An input that cannot be used: what, why, fix. The caller knows the place in the spec."""

    def __init__(self, what: str, why: str, fix: str, code: str | None = None) -> None:
        super().__init__(what)
        self.what, self.why, self.fix, self.code = what, why, fix, code
        """`code` when the fault has one of its own."""


def errors(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Only those that forbid writing."""
    return [found for found in diagnostics if found.severity == "error"]


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """In file order, each once: the same code at the same place says the same thing."""
    unique = {(found.code, found.place, found.what if found.place is None else ""): found for found in reversed(list(diagnostics))}
    return sorted(unique.values(), key=lambda found: (*_position(found.place), found.code, found.what))


def sentence(text: object) -> str:
    """Text of a spec as one printable line: control and direction characters are escaped, secrets overwritten at equal length."""
    return "".join(character if character.isprintable() else _escaped(character) for character in masked(str(text)))


def masked(text: str) -> str:
    """The text with everything that looks like a secret overwritten, at equal length."""
    return SECRET.sub(lambda match: "*" * len(match[0]), text)


class Patience:
    """How many words may still be compared with each other. Suggestions are for people, and nobody reads ten thousand of them."""

    MOST = 25_000
    left = MOST


def nearest(word: str, known: Iterable[str], within: int = 2) -> str | None:
    """The known word at the smallest edit distance (swaps count one), or None beyond `within`. Ties: first in order.

    None also once the patience for one spec is used up: a thousand misspelt names among a thousand would take minutes.
    """
    best, best_distance = None, within + 1
    for candidate in known:
        if Patience.left <= 0:
            break
        Patience.left -= 1
        if abs(len(candidate) - len(word)) < best_distance and (distance := _distance(word, candidate, best_distance)) < best_distance:
            best, best_distance = candidate, distance
    return best if best is None or best_distance < max(len(word), len(best)) else None


def listed(words: Iterable[str], most: int = 30) -> str:
    """Words for a sentence, and how many more there are."""
    found = list(words)
    more = f" and {len(found) - most:,} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more if found else "none"


def _position(place: Place | None) -> tuple[str, int, int]:
    return (place.file, place.line, place.column) if place else ("", 0, 0)


def _escaped(character: str) -> str:
    return "    " if character == "\t" else character.encode("unicode_escape", "backslashreplace").decode("ascii")


def _distance(one: str, other: str, limit: int) -> int:
    before: list[int] = []
    previous = list(range(len(other) + 1))
    for row, left in enumerate(one, start=1):
        current = [row]
        for column, right in enumerate(other, start=1):
            cost = min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (left != right))
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, previous = previous, current
    return previous[-1]
