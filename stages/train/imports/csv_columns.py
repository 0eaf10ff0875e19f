"""A plain CSV table, column by column: Arrow splits it and reads its numbers, and what Arrow leaves open is decided cell by cell.

Plain means no quotes, one kind of line end and rows as long as the header, as logs of numbers are. Anything else is left to the reader
by rows, which knows the place of what is wrong; so is the meaning of every cell that Arrow does not read as a finite number.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from stages.train.imports.log import Column, Log

_MARK = b"\xef\xbb\xbf"


def plain(content: bytes, header: list[str], delimiter: str, index: str, cell: Callable[[str], Any]) -> Log | None:
    """The log of a plain table; None for any other. `cell` gives the meaning of a cell's text."""
    if not header or b'"' in content or b"\0" in content or content.count(b"\r") != content.count(b"\r\n"):
        return None
    names = [str(number) for number in range(len(header))]
    try:
        table = read_csv(
            pa.BufferReader(content.removeprefix(_MARK)),
            ReadOptions(use_threads=False, skip_rows=1, column_names=names),
            ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
            ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
    except pa.ArrowInvalid:  # a short or long row, an empty line, nothing below the header
        return None
    log = Log([None] * table.num_rows, {})
    every = list(range(table.num_rows))
    for name, texts in zip(header, table.columns, strict=True):
        column = _column(texts.combine_chunks(), every, cell)
        if column is None:
            return None
        if column.rows:
            log.columns[name] = column
    if index in log.columns:
        for row, step in zip(log.columns[index].rows, log.columns[index].cells, strict=True):
            log.index[row] = step
    return log


def _column(texts: Any, every: list[int], cell: Callable[[str], Any]) -> Column | None:
    """Cells of an Arrow array of texts; None when one is longer than the reader by rows allows."""
    logged = pc.not_equal(texts, "")
    if pc.all(logged).as_py():
        rows = every.copy()
    else:
        rows = [row for row, there in zip(every, logged.to_pylist(), strict=True) if there]
        texts = texts.filter(logged)
    if not rows:
        return Column()
    try:
        numbers = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:  # a text, a null, white space or a number that only Python reads
        found = texts.to_pylist()
        if max(map(len, found)) > csv.field_size_limit():
            return None
        kept = [(row, text) for row, text in zip(rows, found, strict=True) if text.strip()]
        return Column([row for row, _ in kept], [cell(text) for _, text in kept])
    values = np.frombuffer(numbers.buffers()[1], np.float64, len(rows), numbers.offset * 8)  # its own to_numpy would import pandas
    cells: list[Any] = values.tolist()
    for at in np.flatnonzero(~np.isfinite(values)).tolist():  # Arrow reads more than Python does as NaN, such as nan(ind)
        cells[at] = cell(texts[at].as_py())
    return Column(rows, cells)
