"""Where two versions of a file differ: fields of JSON, cells of CSV, words of lines. Each difference with its place."""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, zip_longest
from pathlib import PurePath
from typing import Any

from stages.contracts.artifact import canonical_json
from stages.publish.verification import Difference

LIMIT = 12
"""Differences of one file that are listed; a file that is another one altogether has thousands."""
_LONG = 70
_FINDING = re.compile(r'data-finding="([^"]*)"')
_HASH = re.compile(r"\b([0-9a-f]{16})[0-9a-f]{24,}\b")
_EDGE = re.compile(r"([\s<>\"'=;,()\[\]{}])")
_NAMES = ("id", "name", "claim", "run", "attempt", "gate", "detector")
"""Keys by which an entry of a list is called; the first that it has."""


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
        kind = PurePath(path).suffix
        try:
            read = {".json": _json_cells, ".csv": _csv_cells}.get(kind)
            cells = list(islice(_cells(read(old), read(new)), limit)) if read else []
        except ValueError:  # one of them is no JSON any more
            cells = []
        return [self._difference(path, *cell) for cell in cells or islice(_lines(old, new), limit)]

    def _difference(self, path: str, line: int | None, column: int | None, cell: str, expected: str, found: str) -> Difference:
        what = f"{cell + ': ' if cell else ''}{found} is not {self.is_not}"
        return Difference(
            code=self.code, path=path, line=line, column=column, cell=cell, what=what, expected=expected, found=found, fix=self.fix
        )


_Cells = dict[str, tuple[int, str]]
"""Name of a field or cell -> its line and its text."""
_Place = tuple[int, int, str, str, str]
"""Line, column, cell, expected text, found text."""


def _cells(old: _Cells, new: _Cells) -> Iterator[_Place]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name, (1, "nothing")), new.get(name, (1, "nothing"))
        if before[1] != after[1]:
            _, earlier, later = _differing(before[1], after[1]) if max(len(before[1]), len(after[1])) > _LONG else (0, before[1], after[1])
            yield after[0], 1, name, _cut(earlier), _cut(later)


def _json_cells(text: str) -> _Cells:
    """The leaves of canonical JSON, which has a line for every value and every closing bracket."""
    lines = count(2)

    def leaves(value: Any, cell: str, line: int) -> Iterator[tuple[str, tuple[int, str]]]:
        if isinstance(value, dict):
            entries = [(f"{cell}.{key}" if cell else key, value[key]) for key in sorted(value)]
        else:
            entries = [(f"{cell}[{_name(entry, at)}]", entry) for at, entry in enumerate(value)] if isinstance(value, list) else []
        for name, entry in entries:
            yield from leaves(entry, name, next(lines))
        if entries:
            next(lines)
        else:
            yield cell, (line, canonical_json(value).strip())

    return dict(leaves(json.loads(text), "", 1))


def _name(entry: Any, at: int) -> str:
    names = (entry[key] for key in _NAMES if isinstance(entry, dict) and isinstance(entry.get(key), str))
    return str(next(names, at))


def _csv_cells(text: str) -> _Cells:
    rows = list(csv.reader(io.StringIO(text)))
    head = rows[0] if rows else []
    return {
        f"row {number}, column {head[at] if at < len(head) else at + 1}": (number, cell)
        for number, row in enumerate(rows, start=1)
        for at, cell in enumerate(row)
    }


def _lines(expected: str, found: str) -> Iterator[_Place]:
    old, new = expected.splitlines(), found.splitlines()
    for tag, a, b, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for at, (earlier, later) in enumerate(zip_longest(old[a:b], new[first:last])) if tag != "equal" else ():
            if earlier is None or later is None:
                yield min(first + at + 1, max(last, first + 1)), 1, "", _cut(earlier or "no such line"), _cut(later or "nothing")
                continue
            start, left, right = _differing(earlier, later)
            finding = _FINDING.findall(later[: start + 1])
            yield first + at + 1, start + 1, finding[-1] if finding else "", _cut(left), _cut(right)


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
