"""Format `csv`: a table with a header. An empty cell was not logged; `NaN` was logged and is not finite; `null` does not apply."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.train.imports.content import content
from stages.train.imports.csv_columns import plain
from stages.train.imports.log import Log, Unreadable, by_column

_NULL = {"null", "none", "n/a"}
_DELIMITERS = ",\t;"


@dataclass
class Lines:
    """Numbers of lines that are not as the header says."""

    short: list[int] = field(default_factory=list)
    headers: list[int] = field(default_factory=list)
    last: int = 0
    before: int = 0
    """Lines before the header."""


def read(path: Path, index: str = "step") -> Log:
    """Raises Unreadable for a repeated column, a row longer than the header, a quote that never ends, or a file that is no UTF-8."""
    data = content(path)
    whole = data.rstrip(b"\0")
    zeros = len(data) - len(whole)
    try:
        text = whole.decode("utf-8")
    except UnicodeDecodeError as error:
        line = whole.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            f"line {line} of {path} is not UTF-8 (byte {error.start}): save it as UTF-8, such as by iconv -f WINDOWS-1252 -t UTF-8"
        ) from None
    delimiter, begin = _delimiter(text)
    if begin:
        text, whole = text[begin:], whole[begin:]
    seen = Lines(before=1 if begin else 0)
    header = _header(text, delimiter, path)
    repeated = _has_line(whole, whole.partition(b"\n")[0].rstrip(b"\r"))
    log = None if repeated else plain(whole, header, delimiter, index, cell)
    if log is None:
        log = by_column(rows(text, delimiter, path, seen), index)
    ends = text.endswith(("\n", "\r"))
    if zeros:
        log.cut = f"the file ends with {zeros} bytes of zeros"
    elif seen.short and seen.short[-1] == seen.last and not ends:
        log.cut = f"line {seen.short.pop()} is torn"
        _without_last_row(log)
    elif not ends and log.columns:
        log.notes.append("the last line has no line end, so its last number may be cut")
    if seen.short:
        log.notes.append(
            f"lines with fewer cells than the header: {len(seen.short)}, line {seen.short[0]} first; what they lack was not logged"
        )
    if seen.headers:
        log.notes.append(f"the header stands again in line {seen.headers[0]}, as after a resume; such lines, left out: {len(seen.headers)}")
    return log


def _delimiter(text: str) -> tuple[str, int]:
    """What stands between cells, and where the table begins: behind a line `sep=;`, which is written for Excel."""
    first = text[: text.find("\n")] if "\n" in text else text
    said = first.rstrip("\r")
    if len(said) == 5 and said.startswith("sep=") and said[4] in _DELIMITERS:
        return said[4], len(first) + 1
    return max(_DELIMITERS, key=first.count), 0


def _header(text: str, delimiter: str, path: Path) -> list[str]:
    """Names of the columns. Raises Unreadable for one that stands twice, and for a first line of numbers."""
    line = text[: text.find("\n") + 1]
    try:  # without a copy of the whole text, but for a name that holds a line end
        names = [name.strip() for name in next(_reader(line if line.count('"') % 2 == 0 and line else text, delimiter), [])]
    except csv.Error as error:
        raise Unreadable(f"line 1 of {path} is not CSV: {error}") from None
    for name, count in Counter(names).items():
        if count > 1 and name:
            raise Unreadable(f"{path} has the column `{name}` {count} times: they are merged or ambiguous")
    if len(names) == 1:
        raise Unreadable(
            f"line 1 of {path} names one column, `{names[0][:60]}`: cells are separated by commas, "
            "semicolons or tabs, and nothing may stand above the names"
        )
    if names and all(isinstance(cell(name), float) for name in names):
        raise Unreadable(f"line 1 of {path} holds numbers and no names: write the names of the columns above them")
    return names


def _has_line(data: bytes, line: bytes) -> bool:
    """Whether a line stands again further down."""
    at = data.find(b"\n" + line)
    while at >= 0:
        if data[at + 1 + len(line) : at + 2 + len(line)] in (b"", b"\r", b"\n"):
            return True
        at = data.find(b"\n" + line, at + 1)
    return False


def _without_last_row(log: Log) -> None:
    """Its last number may lack digits, and nothing tells."""
    row = len(log.index) - 1
    del log.index[row]
    for name, column in list(log.columns.items()):
        if column.rows[-1] == row:
            del column.rows[-1], column.cells[-1]
        if not column.rows:
            del log.columns[name]


def _reader(text: str, delimiter: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def rows(text: str, delimiter: str, path: Path, seen: Lines) -> Iterator[dict[str, Any]]:
    """Rows by names, one by one. Cells below no name are left out: they are no column. Raises Unreadable."""
    reader = _reader(text, delimiter)
    try:
        first: list[str] = next(reader, [])
        header = [name.strip() for name in first]
        for cells in reader:
            seen.last = reader.line_num + seen.before
            if cells == first:
                seen.headers.append(seen.last)
                continue
            if 0 < len(cells) < len(header):
                seen.short.append(seen.last)
            if len(cells) > len(header):
                raise Unreadable(
                    f"line {seen.last} of {path} has {len(cells)} cells under {len(header)} columns: line 1 must name all columns, numbers "
                    "have points and no commas, and a text that holds the separator stands in quotes"
                )
            yield {name: cell(text) for name, text in zip(header, cells, strict=False) if name and text.strip()}
    except csv.Error as error:
        raise Unreadable(
            f"line {reader.line_num + seen.before} of {path} is not CSV: {error}; a quote inside a text is written twice"
        ) from None


def cell(text: str) -> Any:
    """A cell's text as number, None or text."""
    try:
        return float(text)
    except ValueError:
        return None if text.strip().lower() in _NULL else text
