"""Format `csv`: a table with a header. An empty cell was not logged; `NaN` was logged and is not finite; `null` does not apply."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from stages.train.imports.log import Log, NoNumber, Unreadable, content, from_rows, number


def read_csv(path: Path, index: str = "step") -> Log:
    """A last line that is torn is left out and reported, a header that stands again too. Raises Unreadable for a file that is no UTF-8 or
    no CSV, a header that is none, and a row with more or fewer cells than the header."""
    try:
        text = content(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path} is not UTF-8 ({error}): save it as UTF-8, such as by iconv -f WINDOWS-1252 -t UTF-8") from None
    separator = max(",\t;", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise Unreadable(f"line {reader.line_num} of {path} is not CSV: {error}; a quote inside a text is written twice") from None
    header = lines[0][1] if lines else []
    names = _checked([name.strip() for name in header], path)
    rows = [(line, cells) for line, cells in lines[1:] if cells != header]
    headers = [line for line, cells in lines[1:] if cells == header]
    is_whole = text.endswith(("\n", "\r"))
    is_torn = bool(rows) and len(rows[-1][1]) < len(names) and not is_whole
    torn = rows.pop()[0] if is_torn else 0  # the last number of a torn row may lack digits
    for line, cells in rows:
        if len(cells) != len(names):
            raise Unreadable(
                f"line {line} of {path} has {len(cells)} cells under {len(names)} columns: a row has a cell for each column, numbers have "
                "points and no commas, and a text that holds the separator stands in quotes"
            )
    log = from_rows(
        ({name: _cell(cell) for name, cell in zip(names, cells, strict=True) if name and cell.strip()} for _, cells in rows), index
    )
    if torn:
        log.cut = f"line {torn} is torn"
    elif not is_whole and rows:
        log.notes.append("the last line has no line end, so its last number may be cut")
    if headers:
        log.notes.append(f"the header stands again in line {headers[0]}, as after a resume; such lines, left out: {len(headers)}")
    return log


def _checked(names: list[str], path: Path) -> list[str]:
    """Names of the columns. Raises Unreadable for one that stands twice, for a single one, and for a first line of numbers."""
    repeated = next((name for name in names if name and names.count(name) > 1), "")
    if repeated:
        raise Unreadable(f"{path} has the column `{repeated}` {names.count(repeated)} times: they are merged or ambiguous")
    if len(names) == 1 or (names and all(isinstance(_cell(name), float) for name in names)):
        raise Unreadable(
            f"line 1 of {path} must name the columns, separated by commas, semicolons or tabs; it is `{', '.join(names)[:60]}`"
        )
    return names


def _cell(text: str) -> Any:
    """A cell's text as number, None or text."""
    try:
        return number(text)
    except NoNumber:
        return text
