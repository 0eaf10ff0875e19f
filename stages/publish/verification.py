"""What `octavo verify` reports, printed as JSON by `--json`: every place where files, locks, cards, pages and the site do not agree, and
where two versions of a file differ: fields of JSON, cells of CSV, words of lines."""

from __future__ import annotations

import csv
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import PurePath
from typing import Any, ClassVar

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.files import parse_json

LIMIT = 12
"""Differences of one file that are listed; a file that is another one altogether has thousands."""
_LONG = 70
_MOST_PAIRS = 1_000_000
"""Pairs of differing lines among which equal ones are looked for: that takes time as their product."""
_FINDING = re.compile(r'data-finding="([^"]*)"')
_HASH = re.compile(r"\b([0-9a-f]{16})[0-9a-f]{24,}\b")
_EDGE = re.compile(r"([\s<>\"'=;,()\[\]{}])")
_NAMES = ("id", "name", "claim", "run", "attempt", "gate", "detector")
"""Keys by which an entry of a list is called; the first that it has."""


class Difference(Frozen):
    """One thing that is not what it should be."""

    code: str
    """E402 a generated file, E410 a stage that was compiled anew since it ran, E487 a file and its lock, S488 a published value and the
    files, S489 the built site, S495 files that contradict each other,
    S496 an imported run that its source does not give; or the code of the stage that could not compute."""
    path: str
    """File, relative to the project root."""
    line: int | None = None
    column: int | None = None
    """1-based; null when the file has no lines."""
    cell: str = ""
    """The part of the file: a finding and its field, a row and column of a table, a stage of a lock."""
    what: str
    expected: str = ""
    """What it should be, as text; empty when the sentence says it all."""
    found: str = ""
    fix: str


class Verified(Frozen):
    """One experiment."""

    experiment: str
    checked: dict[str, int]
    """What was looked at: kind -> how many."""
    differences: tuple[Difference, ...]
    """Causes first: cards, locks, contradictions, then what was recomputed, then the site."""
    notes: tuple[str, ...] = ()
    """What a reader should know and that is no difference."""


class Verification(Artifact):
    SCHEMA: ClassVar[str] = "octavo.verification/1"

    experiments: tuple[Verified, ...]

    @property
    def differences(self) -> int:
        return sum(len(experiment.differences) for experiment in self.experiments)


@dataclass(frozen=True)
class Comparison:
    """What the differences of a comparison are: `code`, the end of the sentence `<found> is not ...`, and the repair."""

    code: str
    is_not: str
    fix: str

    def differences(self, path: str, expected: bytes, found: bytes, limit: int = LIMIT) -> list[Difference]:
        """Places in which the file at `path` is not the expected one; [] when it is."""
        if expected == found:
            return []
        try:
            old, new = expected.decode(), found.decode()
        except UnicodeDecodeError:
            return [self._difference(path, None, None, "", f"{len(expected)} bytes", f"{len(found)} other bytes")]
        try:
            read = {".json": _json_cells, ".csv": _csv_cells}.get(PurePath(path).suffix)
            cells = list(islice(_cells(dict(read(old)), dict(read(new))), limit)) if read else []
        except (ValueError, csv.Error):  # one of them is no JSON or CSV any more
            cells = []
        places = cells or list(islice(_lines(old, new), limit)) or [(None, None, "", "its line ends", "a file with other line ends")]
        return [self._difference(path, *place) for place in places]

    def _difference(self, path: str, line: int | None, column: int | None, cell: str, expected: str, found: str) -> Difference:
        what = f"{cell + ': ' if cell else ''}{found} is not {self.is_not}"
        place = {"path": path, "line": line, "column": column, "cell": cell}
        return Difference(code=self.code, what=what, expected=expected, found=found, fix=self.fix, **place)


_Place = tuple[int | None, int | None, str, str, str]
"""Line, column, cell, expected text, found text."""


def _cells(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[_Place]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name, "nothing"), new.get(name, "nothing")
        if before != after:
            _, left, right = _differing(before, after) if max(len(before), len(after)) > _LONG else (0, before, after)
            yield None, None, name, _cut(left), _cut(right)


def _json_cells(text: str) -> Iterator[tuple[str, str]]:
    return _leaves(parse_json(text), "")


def _leaves(value: Any, cell: str) -> Iterator[tuple[str, str]]:
    """Name and text of every value; an entry of a list is called by its own name where it has one."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _leaves(value[key], f"{cell}.{key}" if cell else key)
    elif isinstance(value, list) and value:
        for at, entry in enumerate(value):
            names = (entry[key] for key in _NAMES if isinstance(entry, dict) and isinstance(entry.get(key), str))
            yield from _leaves(entry, f"{cell}[{next(names, at)}]")
    else:
        yield cell, json.dumps(value, ensure_ascii=False)


def _csv_cells(text: str) -> Iterator[tuple[str, str]]:
    rows = list(csv.reader(text.splitlines()))
    for number, row in enumerate(rows, start=1):
        for at, cell in enumerate(row):
            yield f"row {number}, column {rows[0][at] if at < len(rows[0]) else at + 1}", cell


def _lines(expected: str, found: str) -> Iterator[_Place]:
    old, new = expected.splitlines(), found.splitlines()
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(old) * len(new) > _MOST_PAIRS:
        changes: Iterable[tuple[str, int, int, int, int]] = [("replace", 0, len(old), 0, len(new))]
    else:
        changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for tag, a, b, first, last in changes:
        for at, (earlier, later) in enumerate(zip_longest(old[a:b], new[first:last])) if tag != "equal" else ():
            if earlier is None or later is None:
                yield head + min(first + at + 1, max(last, first + 1)), 1, "", _cut(earlier or "no such line"), _cut(later or "nothing")
                continue
            start, left, right = _differing(earlier, later)
            finding = _FINDING.findall(later[: start + 1])
            yield head + first + at + 1, start + 1, finding[-1] if finding else "", _cut(left), _cut(right)


def _differing(earlier: str, later: str) -> tuple[int, str, str]:
    """(start, text, text): the words that differ of two texts."""
    old, new = _EDGE.split(earlier), _EDGE.split(later)
    start = _shared(old, new)
    end = _shared(old[start:][::-1], new[start:][::-1])
    left, right = ("".join(words[start : len(words) - end]) or "nothing" for words in (old, new))
    return len("".join(old[:start])), left, right


def _shared(earlier: list[str], later: list[str]) -> int:
    """How many words both begin with."""
    return next((at for at, (a, b) in enumerate(zip(earlier, later, strict=False)) if a != b), min(len(earlier), len(later)))


def _cut(text: str) -> str:
    plain = _HASH.sub(r"\1…", " ".join(text.split()))
    return plain if len(plain) <= _LONG else f"{plain[: _LONG - 1]}…"
