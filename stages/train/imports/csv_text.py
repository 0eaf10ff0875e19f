"""Format `csv`: a table with a header. An empty cell was not logged; `NaN` was logged and is not finite; `null` does not apply."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from pathlib import Path
from typing import Any

from stages.train.imports.cells import NoNumber, number
from stages.train.imports.log import Log, Unreadable, from_rows
from stages.train.imports.text import content

_SEPARATORS = ",\t;"


def read_csv(path: Path, index: str = "step") -> Log:
    """Python's own reader splits the text. Raises Unreadable for a repeated column, a row longer than the header, a quote that never ends,
    or a file that is no UTF-8."""
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
    separator, before = _separator(text)
    reader = csv.reader(io.StringIO(text[before:], newline=""), delimiter=separator, strict=True)
    skipped = 1 if before else 0
    header: list[str] = []
    rows: list[dict[str, Any]] = []
    short: list[int] = []
    headers: list[int] = []
    try:
        first = next(reader, [])
        header = _checked([name.strip() for name in first], path)
        for cells in reader:
            if cells == first:
                headers.append(reader.line_num + skipped)
                continue
            if 0 < len(cells) < len(header):
                short.append(reader.line_num + skipped)
            if len(cells) > len(header):
                raise Unreadable(
                    f"line {reader.line_num + skipped} of {path} has {len(cells)} cells under {len(header)} columns: line 1 must name all "
                    "columns, numbers have points and no commas, and a text that holds the separator stands in quotes"
                )
            rows.append({name: _cell(cell) for name, cell in zip(header, cells, strict=False) if name and cell.strip()})
    except csv.Error as error:
        advice = "; a quote inside a text is written twice" if header else ""
        raise Unreadable(f"line {reader.line_num + skipped} of {path} is not CSV: {error}{advice}") from None
    ends = text.endswith(("\n", "\r"))
    is_torn = bool(short) and short[-1] == reader.line_num + skipped and not ends and not zeros
    log = from_rows([row for row in (rows[:-1] if is_torn else rows) if row], index)  # the last number of a torn row may lack digits
    if zeros:
        log.cut = f"the file ends with {zeros} bytes of zeros"
    elif is_torn:
        log.cut = f"line {short.pop()} is torn"
    elif not ends and log.columns:
        log.notes.append("the last line has no line end, so its last number may be cut")
    if short:
        log.notes.append(f"lines with fewer cells than the header: {len(short)}, line {short[0]} first; what they lack was not logged")
    if headers:
        log.notes.append(f"the header stands again in line {headers[0]}, as after a resume; such lines, left out: {len(headers)}")
    return log


def _separator(text: str) -> tuple[str, int]:
    """What stands between cells, and where the table begins: behind a line `sep=;`, which is written for Excel."""
    first = text.partition("\n")[0]
    line = first.rstrip("\r")
    if len(line) == 5 and line.startswith("sep=") and line[4] in _SEPARATORS:
        return line[4], len(first) + 1
    return max(_SEPARATORS, key=first.count), 0


def _checked(names: list[str], path: Path) -> list[str]:
    """Names of the columns. Raises Unreadable for one that stands twice, and for a first line of numbers."""
    for name, count in Counter(names).items():
        if count > 1 and name:
            raise Unreadable(f"{path} has the column `{name}` {count} times: they are merged or ambiguous")
    if len(names) == 1:
        raise Unreadable(
            f"line 1 of {path} names one column, `{names[0][:60]}`: cells are separated by commas, "
            "semicolons or tabs, and nothing may stand above the names"
        )
    if names and all(isinstance(_cell(name), float) for name in names):
        raise Unreadable(f"line 1 of {path} holds numbers and no names: write the names of the columns above them")
    return names


def _cell(text: str) -> Any:
    """A cell's text as number, None or text."""
    try:
        value = number(text)
    except NoNumber:
        return text
    return math.inf if value is not None and math.isnan(value) else value
