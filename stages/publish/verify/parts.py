"""Two versions of one file, part by part: fields of JSON, cells of CSV, words of lines. Each difference with its place."""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import PurePath
from typing import Any, NamedTuple

from stages.contracts.artifact import canonical_json
from stages.contracts.verification import Difference

MOST = 12
"""Differences of one file that are told; a file that is another one altogether has thousands."""
_LONG = 70
_FINDING = re.compile(r'data-finding="([^"]*)"')
_HASH = re.compile(r"\b([0-9a-f]{16})[0-9a-f]{24,}\b")
_NAMES = ("id", "name", "claim", "run", "attempt", "gate", "detector")
"""Keys by which an entry of a list is called; the first that it has."""
_MISSING = object()


class Part(NamedTuple):
    line: int | None
    column: int | None
    cell: str
    expected: str
    found: str

    def difference(self, code: str, path: str, is_not: str, fix: str) -> Difference:
        """As a difference of the file at `path`; `is_not` ends the sentence `<found> is not ...`."""
        where = f"{self.cell}: " if self.cell else ""
        return Difference(
            code=code,
            path=path,
            line=self.line,
            column=self.column,
            cell=self.cell,
            what=f"{where}{self.found} is not {is_not}",
            expected=self.expected,
            found=self.found,
            fix=fix,
        )


def parts(path: str, expected: bytes, found: bytes) -> list[Part]:
    """Where two versions of a file differ, at most MOST places; [] when they are equal."""
    if expected == found:
        return []
    kind = PurePath(path).suffix
    try:
        old, new = expected.decode(), found.decode()
    except UnicodeDecodeError:
        return [Part(None, None, "", f"{len(expected)} bytes", f"{len(found)} other bytes")]
    made: Iterator[Part]
    if kind == ".json":
        made = _json(old, new)
    elif kind == ".csv":
        made = _csv(old, new)
    else:
        made = _lines(old, new)
    told = [part for part, _ in zip(made, range(MOST), strict=False)]
    return told or list(_lines(old, new))[:MOST]  # equal values, written differently


def _json(expected: str, found: str) -> Iterator[Part]:
    try:
        old, new = json.loads(expected), json.loads(found)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        yield Part(line, getattr(error, "colno", 1), "", "JSON", f"{error}")
        return
    lines = found.splitlines()
    for trail, before, after in _fields((), old, new):
        line = _line(new, trail)
        text = lines[line - 1] if line <= len(lines) else ""
        written = "" if after is _MISSING else canonical_json(after).strip()
        column = text.rfind(written) + 1 if written and "\n" not in written else len(text) - len(text.lstrip()) + 1
        if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _LONG:
            _, one, other = differing(before, after)
            yield Part(line, max(column, 1), _cell(new, old, trail), _cut(one), _cut(other))
        else:
            yield Part(line, max(column, 1), _cell(new, old, trail), _shown(before), _shown(after))


def _fields(trail: tuple[Any, ...], old: Any, new: Any) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """(keys and indices, value, value) of every leaf that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _fields((*trail, key), old.get(key, _MISSING), new.get(key, _MISSING))
    elif isinstance(old, list) and isinstance(new, list):
        for index, (before, after) in enumerate(zip_longest(old, new, fillvalue=_MISSING)):
            yield from _fields((*trail, index), before, after)
    elif type(old) is not type(new) or old != new:
        yield trail, old, new


def _line(value: Any, trail: tuple[Any, ...]) -> int:
    """Line of a field in canonical text: one line for each value, brackets and braces on lines of their own."""
    line = 1
    for step in trail:
        if isinstance(value, dict):
            before = [value[key] for key in sorted(value) if key < step]
            value = value.get(step)
        elif isinstance(value, list):
            before, value = value[:step], value[step] if step < len(value) else None
        else:
            break
        line += 1 + sum(canonical_json(one).count("\n") for one in before)
    return line


def _cell(new: Any, old: Any, trail: tuple[Any, ...]) -> str:
    """`findings[shaped-s1/reward/final].value`: list entries by their name where they have one."""
    said = ""
    for step in trail:
        if isinstance(step, int):
            one = _entry(new, step) or _entry(old, step)
            name = next((one[key] for key in _NAMES if isinstance(one, dict) and isinstance(one.get(key), str)), step)
            said += f"[{name}]"
        else:
            said += f".{step}" if said else str(step)
        new, old = _entry(new, step), _entry(old, step)
    return said


def _entry(value: Any, step: Any) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None


def _csv(expected: str, found: str) -> Iterator[Part]:
    old, new = list(csv.reader(io.StringIO(expected))), list(csv.reader(io.StringIO(found)))
    head = new[0] if new else []
    for row, (before, after) in enumerate(zip_longest(old, new), start=1):
        if before is None or after is None:
            yield Part(row, 1, f"row {row}", _cut(",".join(before or [])) or "no such row", _cut(",".join(after or [])) or "nothing")
            continue
        for column, (one, other) in enumerate(zip_longest(before, after)):
            if one != other:
                place = 1 + len(",".join(after[:column])) + (column > 0)
                name = head[column] if column < len(head) else column + 1
                yield Part(row, place, f"row {row}, column {name}", _cut(one or ""), _cut(other or ""))


def _lines(expected: str, found: str) -> Iterator[Part]:
    old, new = expected.splitlines(), found.splitlines()
    if len(old) == len(new):
        pairs = [(number, [a], [b]) for number, (a, b) in enumerate(zip(old, new, strict=True), start=1) if a != b]
    else:
        matcher = difflib.SequenceMatcher(None, old, new)
        pairs = [(first + 1, old[a:b], new[first:last]) for tag, a, b, first, last in matcher.get_opcodes() if tag != "equal"]
    for first, before, after in pairs:
        for offset, (one, other) in enumerate(zip_longest(before, after)):
            number = first + (offset if other is not None else max(len(after) - 1, 0))
            if one is None or other is None:
                yield Part(number, 1, "", _cut(one or "no such line"), _cut(other or "nothing"))
                continue
            start, left, right = differing(one, other)
            finding = _FINDING.findall(other[: start + 1])
            yield Part(number, start + 1, finding[-1] if finding else "", _cut(left), _cut(right))


def differing(one: str, other: str) -> tuple[int, str, str]:
    """(start, text, text): what differs of two lines, widened to whole words."""
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    while start and not _edge(one[start - 1]):
        start -= 1
    while end and not _edge(one[len(one) - end]):
        end -= 1
    return start, one[start : len(one) - end] or "nothing", other[start : len(other) - end] or "nothing"


def _edge(letter: str) -> bool:
    return letter.isspace() or letter in "<>\"'=;,()[]{}"


def _shown(value: Any) -> str:
    return "no such key" if value is _MISSING else _cut(canonical_json(value).strip())


def _cut(text: str) -> str:
    plain = _HASH.sub(r"\1…", " ".join(text.split()))
    return plain if len(plain) <= _LONG else f"{plain[: _LONG - 1]}…"
