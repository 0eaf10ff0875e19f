"""Format `csv`: a table with a header. An empty cell was not logged; `NaN` was logged and is not finite; `null` does not apply."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.train.imports.content import content
from stages.train.imports.csv_columns import plain
from stages.train.imports.log import Log, Unreadable, by_column

_NULL = {"null", "none", "n/a"}


def read(path: Path, index: str = "step") -> Log:
    """Raises Unreadable for a repeated column, a row longer than the header, a quote that never ends, or a file that is no UTF-8."""
    data = content(path)
    whole = data.rstrip(b"\0")
    try:
        text = whole.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path} is not UTF-8 (byte {error.start})") from None
    delimiter = _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    short: list[int] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        repeated = [name for name, count in Counter(header).items() if count > 1 and name]
        if repeated:
            raise Unreadable(f"{path} has the column `{repeated[0]}` {Counter(header)[repeated[0]]} times: they are merged or ambiguous")
        log = plain(whole, header, delimiter, index, cell) or by_column(_rows(reader, header, path, short), index)
    except csv.Error as error:
        raise Unreadable(f"line {reader.line_num} of {path} is not CSV: {error}") from None
    ends = text.endswith(("\n", "\r"))
    if whole is not data and len(whole) < len(data):
        log.cut = f"the file ends with {len(data) - len(whole)} bytes of zeros"
    elif short and short[-1] == reader.line_num and not ends:
        log.cut = f"line {short.pop()} is torn"
        _without_last_row(log)
    elif not ends and log.columns:
        log.notes.append("the last line has no line end, so its last number may be cut")
    if short:
        log.notes.append(f"lines with fewer cells than the header: {len(short)}, line {short[0]} first; what they lack was not logged")
    return log


def _delimiter(text: str) -> str:
    end = text.find("\n")
    first = text[:end] if end >= 0 else text
    return max(",\t;", key=first.count)


def _without_last_row(log: Log) -> None:
    """Its last number may lack digits, and nothing tells."""
    row = len(log.index) - 1
    del log.index[row]
    for name, column in list(log.columns.items()):
        if column.rows[-1] == row:
            del column.rows[-1], column.cells[-1]
        if not column.rows:
            del log.columns[name]


def _rows(reader: Any, header: list[str], path: Path, short: list[int]) -> Iterator[dict[str, Any]]:
    """Rows by names; numbers of lines that are too short are added to `short`. Cells below no name are left out: they are no column."""
    for cells in reader:
        if 0 < len(cells) < len(header):
            short.append(reader.line_num)
        if len(cells) > len(header):
            raise Unreadable(f"line {reader.line_num} of {path} has {len(cells)} cells under {len(header)} columns")
        yield {name: cell(text) for name, text in zip(header, cells, strict=False) if name and text.strip()}


def cell(text: str) -> Any:
    """A cell's text as number, None or text."""
    try:
        return float(text)
    except ValueError:
        return None if text.strip().lower() in _NULL else text
