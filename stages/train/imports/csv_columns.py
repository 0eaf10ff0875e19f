"""A plain CSV table, column by column: Arrow splits it and reads its numbers, and what Arrow leaves open is decided cell by cell.

Plain means no quotes, one kind of line end and rows as long as the header, as logs of numbers are. Anything else is left to the reader
by rows, which knows the place of what is wrong; so is the meaning of every cell that Arrow does not read as a finite number.

A column whose first cell is a number is read as numbers while Arrow splits the table. Where a later cell is none, or could be NaN in
words that only Arrow knows, the column is read again as texts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from stages.train.imports.log import Column, Log

_COLUMN = re.compile(r"In CSV column #(\d+):")
_TRIES = 4
"""So many columns may turn out to hold no numbers before all are read as texts."""


def plain(content: bytes, header: list[str], delimiter: str, index: str, cell: Callable[[str], Any]) -> Log | None:
    """The log of a plain table; None for any other. `cell` gives the meaning of a cell's text."""
    if not header or b'"' in content or b"\0" in content:
        return None
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
        array = chunks.combine_chunks()
        column = _numbers(array, every) if pa.types.is_float64(array.type) else _texts(array, every, cell)
        if column is None:
            return None
        if column.rows:
            log.columns[name] = column
    column = log.columns.get(index)
    if column is not None and column.rows is every:
        log.index = column.cells.copy()
    elif column is not None:
        for row, step in zip(column.rows, column.cells, strict=True):
            log.index[row] = step
    return log


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


def _numbers(array: Any, every: list[int]) -> Column:
    """Cells of numbers. An empty cell was not logged. Columns that hold all rows share the list of their numbers: nobody writes there."""
    rows = every
    if array.null_count:
        rows = [row for row, there in zip(every, array.is_valid().to_pylist(), strict=True) if there]
        array = array.drop_null()
    values = np.frombuffer(array.buffers()[1], np.float64, len(rows), array.offset * 8)  # its own to_numpy would import pandas
    return Column(rows, values.tolist())


def _texts(texts: Any, every: list[int], cell: Callable[[str], Any]) -> Column | None:
    """Cells of texts; None when one is longer than the reader by rows allows."""
    found = texts.to_pylist()
    if max(map(len, found), default=0) > csv.field_size_limit():
        return None
    kept = [(row, text) for row, text in zip(every, found, strict=True) if text.strip()]
    return Column([row for row, _ in kept], [cell(text) for _, text in kept])
