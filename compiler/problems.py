"""Problems of a spec: made from the catalogue of messages, errors.yaml, and collected."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from stages.contracts.diagnostic import Diagnostic, Note, Place, escaped
from stages.contracts.files import FileRefused, load_table

CATALOGUE = Path(__file__).parent / "errors.yaml"
ELSEWHERE = Path(__file__).parent / "elsewhere.yaml"

SECRET = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|AKIA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{30,}|xox[abprs]-[A-Za-z0-9-]{10,}|local-[0-9a-f]{40}|[0-9a-f]{40,})(?![A-Za-z0-9_-])"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""What looks like a key of a service. It must never enter a card, and never a message either."""


class Rejected(Exception):
    """The author's input cannot be compiled. Carries every problem so far, warnings included.

    `sources` holds the lines of files that could not even be parsed, for the excerpts.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, list[str]] | None = None) -> None:
        self.diagnostics, self.sources = in_order(diagnostics), dict(sources or {})
        super().__init__("; ".join(f"{problem.code} {problem.what}" for problem in self.diagnostics))


class Fault(Exception):
    """An input that cannot be used. Whoever asked for it knows the place in the spec."""

    def __init__(self, problem: Diagnostic) -> None:
        super().__init__(problem.what)
        self.problem = problem

    def at(self, place: Place | None) -> Diagnostic:
        """The problem at a place of the spec."""
        return replace(self.problem, place=place)


@functools.cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """Code, or code and form such as `E361.kl` -> its texts. A form has the texts of its code that it does not give itself."""
    entries: dict[str, dict[str, str]] = load_table(CATALOGUE)
    return {code: {**entries[code.partition(".")[0]], **texts} for code, texts in entries.items()}


@functools.cache
def elsewhere() -> Mapping[str, Mapping[str, str]]:
    """Code -> words of other tools that octavo does not have, each with what to do instead."""
    entries: dict[str, dict[str, str]] = load_table(ELSEWHERE)
    return {code: {word: fix for words, fix in fixes.items() for word in words.split()} for code, fixes in entries.items()}


def problem(code: str, place: Place | None = None, note: Place | None = None, **facts: Any) -> Diagnostic:
    """A message of the catalogue. `code`: such as `E304`, or `E361.kl` for one of its forms; `note`: the place that its note is about.

    `facts` replace `$name` in the texts: numbers are written in short, lists as words with commas.
    """
    texts, words = catalogue()[code], {name: _written(fact) for name, fact in facts.items()}
    what, why, fix = (Template(texts[part]).substitute(words) for part in ("what", "why", "fix"))
    notes = (Note(note, Template(texts["note"]).substitute(words)),) if texts.get("note") else ()
    return Diagnostic(code[:4], what, why, fix, place, notes, "warning" if code[0] == "W" else "error")


def unknown(code: str, word: str, known: Iterable[str], place: Place | None, note: Place | None = None, **facts: Any) -> Diagnostic:
    """A message about a word that is not one of the known ones. Where one of them is like it, the message suggests that one; for a word
    of another tool it says what octavo has in its place.

    Facts of its own: `$word`, `$known`, and `$first` of them. The entry's `fix` is for words that are like none, its `meant` for others.
    """
    words = list(known)
    meant, texts = nearest(word, words), catalogue()[code]
    message = problem(code, place, note, word=word[:80], known=words, first=words[0] if words else "...", **facts)
    if instead := elsewhere().get(code, {}).get(word):
        return replace(message, fix=instead)
    if meant is None:
        return message
    fix = Template(texts.get("meant", "write `$meant`")).substitute(facts, meant=meant)
    return replace(message, what=f"{message.what}, did you mean `{meant}`?", fix=fix)


def _written(fact: object) -> str:
    if isinstance(fact, float):
        return f"{fact:g}"
    if isinstance(fact, str) or not isinstance(fact, Iterable):
        return str(fact)
    return listed(map(str, fact))


def refused_file(refused: FileRefused, place: Place | None = None) -> Diagnostic:
    """E113 of a file that is not read or written, whatever it holds."""
    facts = {"file": sentence(refused.filename), "reason": refused.strerror, "why": refused.why, "fix": sentence(refused.fix)}
    return problem("E113.refused", place, None, **facts)


def errors(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Only those that forbid writing."""
    return [problem for problem in diagnostics if problem.severity == "error"]


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """In file order, each once: the same code at the same place says the same thing."""
    unique = {(problem.code, problem.place, "" if problem.place else problem.what): problem for problem in reversed(list(diagnostics))}
    return sorted(unique.values(), key=lambda problem: (*_position(problem.place), problem.code, problem.what))


def sentence(text: object) -> str:
    """Text of a spec as one printable line: control and direction characters are escaped, secrets overwritten at equal length."""
    return "".join(character if character.isprintable() else escaped(character) for character in masked(str(text)))


def shown(value: Any, most: int = 80) -> str:
    """A value as YAML writes it, on one line of at most `most` characters."""
    text = _yaml(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _yaml(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_yaml(inner)}' for key, inner in value.items())}}}"
    return sentence(value)


def masked(text: str) -> str:
    """The text with everything that looks like a secret overwritten, at equal length."""
    return SECRET.sub(lambda match: "*" * len(match[0]), text)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like this one; None if none is. Among more than 1,000 it would take too long."""
    words = list(known)
    return next(iter(difflib.get_close_matches(word[:100], words, n=1, cutoff=0.75)), None) if len(words) <= 1_000 else None


def repeated(names: Iterable[tuple[Any, Place]]) -> Iterator[tuple[Any, Place, Place]]:
    """(name, its place, the place where it stood first) of each name that was there before."""
    first: dict[Any, Place] = {}
    for name, place in names:
        if name in first:
            yield name, place, first[name]
        first.setdefault(name, place)


def listed(words: Iterable[str], most: int = 30) -> str:
    """Words for a sentence, and how many more there are."""
    texts = list(words)
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more if texts else "none"


def _position(place: Place | None) -> tuple[str, int, int]:
    return (place.file, place.line, place.column) if place else ("", 0, 0)
