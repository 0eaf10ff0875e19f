"""What a person sees: problems with excerpt and caret, in colour on a terminal, and a report of octavo's own mistakes."""

from __future__ import annotations

import os
import sys
import traceback
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler.problems import in_order, masked, sentence
from stages.contracts.artifact import digest
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.files import write_text

LIMIT = 20
"""Most diagnostics shown at once."""
WIDTH = 120
"""Longest excerpt of a line; longer ones are cut around the caret."""

_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m", "quiet": "\x1b[2m", "end": "\x1b[0m"}


def render(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Sequence[str]], colour: bool = False) -> str:
    """Text of at most LIMIT diagnostics, errors before warnings when not all fit. `sources` maps a file to its lines."""
    shown = list(diagnostics)
    if len(shown) > LIMIT:
        shown = in_order(sorted(shown, key=lambda problem: problem.severity != "error")[:LIMIT])
    blocks = ["\n".join(_block(problem, sources, colour)) for problem in shown]
    hidden = len(diagnostics) - len(shown)
    if hidden:
        blocks.append(f"and {hidden} more, not shown: repair these first")
    return "\n\n".join(blocks) + "\n" if blocks else ""


def colour() -> bool:
    """Whether standard error is a terminal that shows colours and a person who wants them (https://no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def flow(value: Any) -> str:
    """A value as a spec writes it on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return {True: "true", False: "false", None: "null"}[value] if isinstance(value, bool) or value is None else str(value)


REPORTS = Path(".cache/octavo-reports")


def report(error: Exception) -> int:
    """Save the traceback and say where; exit code 3. Equal errors make one file."""
    text = masked("".join(traceback.format_exception(error)))
    path = REPORTS / f"{digest(text)[:12]}.txt"
    try:
        content = f"octavo {' '.join(map(masked, sys.argv[1:]))}\npython {sys.version}\n\n{text}"
        write_text(path, content.encode("utf-8", "backslashreplace").decode())
        where = f"A report was saved: {path}"
    except OSError as failure:
        where = f"No report could be saved ({failure.strerror or failure})"
    print(f"octavo failed, and it is not your spec's fault: {type(error).__name__}.", file=sys.stderr)
    print(f"{where}. Please send it with the spec to the people who maintain octavo.", file=sys.stderr)
    return 3


def _block(problem: Diagnostic, sources: Mapping[str, Sequence[str]], colour: bool) -> list[str]:
    paint = _COLOURS if colour else dict.fromkeys(_COLOURS, "")
    where = f"{_where(problem.place)}: " if problem.place else ""
    lines = [f"{where}{paint[problem.severity]}{problem.code}{paint['end']} {sentence(problem.what)}"]
    if problem.place:
        lines += _excerpt(problem.place, sources.get(problem.place.file, ()), paint[problem.severity], paint["end"])
    for note in problem.notes:
        lines.append(f"  {paint['quiet']}note:{paint['end']} {_where(note.place) + ': ' if note.place else ''}{sentence(note.text)}")
    lines.append(f"  {paint['quiet']}why:{paint['end']} {sentence(problem.why)}")
    lines.append(f"  {paint['quiet']}fix:{paint['end']} {sentence(problem.fix)}")
    return lines


def _where(place: Place) -> str:
    return f"{sentence(place.file)}:{place.line}:{place.column}"


def _excerpt(place: Place, lines: Sequence[str], paint: str, end: str) -> list[str]:
    if not 1 <= place.line <= len(lines):
        return []
    line, start = masked(lines[place.line - 1]), place.column - 1
    length = max(1, min(place.length, len(line) - start))
    cut = max(0, min(start - WIDTH // 3, len(line) - WIDTH)) if len(line) > WIDTH else 0
    head, tail = "…" if cut else "", "…" if len(line) - cut > WIDTH else ""
    text, before = sentence(line[cut : cut + WIDTH]), sentence(line[cut:start])
    width = _columns(sentence(line[start : min(start + length, cut + WIDTH)])) or 1
    return [
        f"{place.line:>5} | {head}{text}{tail}",
        f"      | {' ' * (len(head) + _columns(before))}{paint}{'^' * width}{end}",
    ]


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 0 if unicodedata.combining(character) else 1 for character in text)
