"""Format `csv`: a table with a header. An empty cell was not logged; `NaN` was logged and is not finite; `null` does not apply."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.train.imports.csv_columns import plain
from stages.train.imports.log import Log, Unreadable, by_column

_NULL = {"null", "none", "n/a"}


def read(path: Path, index: str = "step") -> Log:
    """Raises Unreadable for a repeated column, a row longer than the header, or a file that is no UTF-8."""
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path} is not UTF-8 (byte {error.start})") from None
    delimiter = _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        header = [name.strip() for name in next(reader, [])]
        repeated = [name for name, count in Counter(header).items() if count > 1]
        if repeated:
            raise Unreadable(f"{path} has the column `{repeated[0]}` {Counter(header)[repeated[0]]} times: they are merged or ambiguous")
        return plain(content, header, delimiter, index, cell) or by_column(_rows(reader, header, path), index)
    except csv.Error as error:
        raise Unreadable(f"line {reader.line_num} of {path} is not CSV: {error}") from None


def _delimiter(text: str) -> str:
    first = text.partition("\n")[0]
    return max(",\t;", key=first.count)


def _rows(reader: Any, header: list[str], path: Path) -> Iterator[dict[str, Any]]:
    for cells in reader:
        if len(cells) > len(header):
            raise Unreadable(f"line {reader.line_num} of {path} has {len(cells)} cells under {len(header)} columns")
        yield {name: cell(text) for name, text in zip(header, cells, strict=False) if text.strip()}


def cell(text: str) -> Any:
    """A cell's text as number, None or text."""
    try:
        return float(text)
    except ValueError:
        return None if text.strip().lower() in _NULL else text
