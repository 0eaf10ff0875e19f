"""A plain CSV table, column by column: Arrow splits it and reads its numbers, and what Arrow leaves open is decided cell by cell.

Plain means one kind of line end, rows as long as the header, and quotes around every cell or around none, as logs of numbers are.
Anything else is left to the reader by rows, which knows the place of what is wrong; so is the meaning of every cell that Arrow does not
read as a finite number.

A column whose first cell is a number is read as numbers while Arrow splits the table. Where a later cell is none, or could be NaN in
words that only Arrow knows, the column is read again as texts.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from stages.train.imports.log import Column, Log

_COLUMN = re.compile(r"In CSV column #(\d+):")
_TRIES = 4
"""So many columns may turn out to hold no numbers before all are read as texts."""


def plain(content: bytes, header: list[str], delimiter: str, index: str, cell: Callable[[str], Any]) -> Log | None:
    """The log of a plain table; None for any other. `cell` gives the meaning of a cell's text."""
    if not header or b"\0" in content:
        return None
    if b'"' in content:
        unquoted = _unquoted(content, len(header), delimiter.encode())
        if unquoted is None:
            return None
        content = unquoted
    if b"\r" in content and content.count(b"\r") != content.count(b"\r\n"):  # a count takes thirty times as long as a look
        return None
    table = _table(content, len(header), delimiter)
    if table is None:
        return None
    log = Log([None] * table.num_rows, {})
    every = list(range(table.num_rows))
    for name, chunks in zip(header, table.columns, strict=True):
        if not name:
            continue
        whole = chunks.combine_chunks()
        column = _numbers(whole, every) if pa.types.is_float64(whole.type) else _texts(whole, every, cell)
        if column is None:
            return None
        if column.rows:
            log.columns[name] = column
    column = log.columns.get(index)
    if column is not None and column.rows is every:
        log.index = list(column.cells)
    elif column is not None:
        for row, step in zip(column.rows, column.cells, strict=True):
            log.index[row] = step
    return log


def _unquoted(content: bytes, width: int, delimiter: bytes) -> bytes | None:
    """The table without its quotes, where they stand around every cell, or around names of the header, and hold nothing that they guard.
    None for any other."""
    begin = content.find(b"\n") + 1
    head, body = content[:begin], content[begin:]
    if not begin or head.count(b'"') % 2:
        return None
    if b'"' not in body:
        return b"\n" + body  # whoever asks knows the header, and its line is not looked at
    lines = body.rstrip(b"\r\n").split(b"\n")
    between = b'"' + delimiter + b'"'
    alike = all(line.startswith(b'"') and line.rstrip(b"\r").endswith(b'"') for line in lines)
    if (
        not alike
        or not len(lines) * (width - 1) == body.count(between) == body.count(delimiter)
        or body.count(b'"') != 2 * width * len(lines)
    ):
        return None
    return b"\n" + body.replace(b'"', b"")


def _table(content: bytes, width: int, delimiter: str) -> Any:
    """Columns of numbers and of texts; None for a table that is not plain."""
    begin = content.find(b"\n") + 1
    end = content.find(b"\n", begin)
    cells = content[begin : end if end >= 0 else None].rstrip(b"\r").split(delimiter.encode())
    texts = {number for number, text in enumerate(cells) if not _is_number(text)}
    strange = b"(" in content  # only Arrow takes nan(ind) for NaN
    for _ in range(_TRIES):
        try:
            table = _read(content, width, delimiter, texts)
        except pa.ArrowInvalid as error:
            wrong = _COLUMN.search(str(error))
            if wrong is None:  # a short or long row, an empty line, nothing below the header
                return None
            texts.add(int(wrong[1]))
            continue
        odd = {at for at, column in enumerate(table.columns) if strange and at not in texts and not _finite(column)}
        if not odd:
            return table
        texts |= odd
    try:
        return _read(content, width, delimiter, set(range(width)))
    except pa.ArrowInvalid:
        return None


def _read(content: bytes, width: int, delimiter: str, texts: set[int]) -> Any:
    names = [str(number) for number in range(width)]
    types = {name: pa.string() if number in texts else pa.float64() for number, name in enumerate(names)}
    return read_csv(
        pa.BufferReader(content),
        ReadOptions(use_threads=False, skip_rows=1, column_names=names),
        ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
        ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=False),
    )


def _is_number(text: bytes) -> bool:
    """Whether a column may be one of numbers, by its first cell."""
    try:
        float(text or b"0")
    except ValueError:
        return False
    return True


def _finite(column: Any) -> bool:
    return bool(pc.all(pc.is_finite(column)).as_py() in (True, None))


def _numbers(found: Any, every: list[int]) -> Column:
    """Cells of numbers. An empty cell was not logged. Columns that hold all rows share the list of their numbers: nobody writes there."""
    rows = every
    if found.null_count:
        rows = [row for row, there in zip(every, found.is_valid().to_pylist(), strict=True) if there]
        found = found.drop_null()
    values = array("d")
    values.frombytes(memoryview(found.buffers()[1])[found.offset * 8 : (found.offset + len(rows)) * 8])
    return Column(rows, values)


def _texts(texts: Any, every: list[int], cell: Callable[[str], Any]) -> Column | None:
    """Cells of texts; None when one is longer than the reader by rows allows."""
    found = texts.to_pylist()
    if max(map(len, found), default=0) > csv.field_size_limit():
        return None
    kept = [(row, text) for row, text in zip(every, found, strict=True) if text.strip()]
    return Column([row for row, _ in kept], [cell(text) for _, text in kept])
