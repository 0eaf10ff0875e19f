"""Parquet columns as numpy arrays, without pandas: importing it takes longer than everything else that analysis does to a small experiment.

Arrow's buffers are looked at in place (`to_numpy` of Arrow imports pandas where it is installed). Text comes as codes of its distinct
words, as the file holds it. Of a column whose own statistics say that it holds one word only, nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.contracts.artifact import ArtifactError


@dataclass(frozen=True)
class Words:
    """A column of text: `names[codes[row]]`, and null where the code is -1. A name may occur twice, and need not occur at all."""

    codes: NDArray[np.int32]
    names: Sequence[str]

    def count(self, *words: str) -> tuple[int, ...]:
        """Rows that hold each word."""
        held = np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))
        return tuple(sum(int(n) for name, n in zip(self.names, held.tolist(), strict=True) if name == word) for word in words)

    def kept(self, rows: NDArray[Any]) -> Words:
        return Words(self.codes[rows], self.names)


@dataclass(frozen=True)
class Table:
    """Columns of one length. Numbers are NaN, integers 0 and flags False where the file has null."""

    rows: int
    numbers: Mapping[str, NDArray[Any]]
    words: Mapping[str, Words]
    alone: Mapping[str, str]
    """Columns that hold one word in every row, in place of their codes."""

    def kept(self, rows: NDArray[np.bool_]) -> Table:
        """The rows for which the mask is true."""
        numbers = {name: column[rows] for name, column in self.numbers.items()}
        words = {name: column.kept(rows) for name, column in self.words.items()}
        return Table(int(rows.sum()), numbers, words, self.alone)

    def text(self, name: str) -> Words:
        """A column of text, also where one word holds for every row."""
        if name in self.alone:
            return Words(np.zeros(self.rows, dtype=np.int32), [self.alone[name]])
        return self.words[name]

    @classmethod
    def empty(cls, numbers: Collection[str] = (), words: Collection[str] = ()) -> Self:
        """No rows."""
        return cls(0, {name: np.empty(0) for name in numbers}, {name: Words(np.empty(0, dtype=np.int32), []) for name in words}, {})


def read_table(
    path: Path, schema: str, columns: Sequence[str], wanted: Callable[[Mapping[str, str], Sequence[str]], Sequence[str]]
) -> tuple[Table | None, dict[str, str]]:
    """The columns that are wanted of a file with such metadata, whose rows are sorted by such columns, and the metadata; (None, {}) when
    the file does not exist. Raises ArtifactError when it is no Parquet file, of another schema, or without one of `columns`."""
    if not path.is_file():
        return None, {}
    table, alone, rows = None, {}, 0
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            arrow, inside = file.schema_arrow, file.metadata
            metadata = {key.decode(): value.decode() for key, value in (arrow.metadata or {}).items()}
            missing = sorted(set(columns) - set(arrow.names))
            if not missing:
                names = wanted(metadata, _sorted_by(inside))
                texts = [name for name in names if pa.types.is_string(arrow.field(name).type)]
                alone = {name: word for name in texts if (word := _only_word(inside, name)) is not None}
                rows, asked = inside.num_rows, [name for name in names if name not in alone]
                if coded := [name for name in texts if name not in alone]:
                    with pq.ParquetFile(path, read_dictionary=coded, metadata=inside, pre_buffer=False) as file_of_codes:
                        table = file_of_codes.read(columns=asked, use_threads=False)
                else:
                    table = file.read(columns=asked, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise ArtifactError(
            path, f"not a Parquet file: {error}", why="it was cut or overwritten", fix="dvc checkout, or dvc repro"
        ) from None
    if metadata.get("octavo.schema") != schema:
        found = metadata.get("octavo.schema")
        raise ArtifactError(path, f"schema is {found!r}, expected {schema!r}", why="another version or another file", fix="dvc repro")
    if table is None:
        raise ArtifactError(path, f"columns are missing: {', '.join(missing)}", why=f"{schema} has them", fix="octavo compile && dvc repro")
    numbers: dict[str, NDArray[Any]] = {}
    words: dict[str, Words] = {}
    for name, column in zip(table.column_names, table.unify_dictionaries().columns, strict=True):
        if pa.types.is_dictionary(column.type):
            names = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
            words[name] = Words(_joined(column, lambda chunk: _codes(chunk.indices), np.int32), names)
        elif column.type in _NUMBERS:
            numbers[name] = _joined(column, _NUMBERS[column.type][0], _NUMBERS[column.type][1])
        else:
            raise ArtifactError(path, f"column {name} is {column.type}", why=f"{schema} has other types", fix="octavo compile && dvc repro")
    return Table(rows, numbers, words, alone), metadata


def _sorted_by(metadata: Any) -> list[str]:
    """Columns by which every part of a file says that it is sorted, rising; [] when it does not say, as when others wrote it anew."""
    found = {metadata.row_group(group).sorting_columns for group in range(metadata.num_row_groups)}
    columns = found.pop() if len(found) == 1 else ()
    return [] if any(column.descending for column in columns) else [metadata.schema.column(column.column_index).path for column in columns]


def _only_word(metadata: Any, name: str) -> str | None:
    """The word that every row of a column holds, by the file's own statistics; None where they do not say so."""
    found: set[Any] = set()
    at = next((n for n in range(metadata.num_columns) if metadata.schema.column(n).path == name), None)
    for group in range(metadata.num_row_groups):
        counts = metadata.row_group(group).column(at).statistics if at is not None else None
        if counts is None or not counts.has_min_max or not counts.has_null_count or counts.null_count:
            return None
        found |= {counts.min, counts.max}
    return str(found.pop()) if len(found) == 1 else None


def _joined(column: Any, make: Callable[[Any], NDArray[Any]], kind: type) -> NDArray[Any]:
    parts = [make(chunk) for chunk in column.chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, dtype=kind)


def _bits(buffer: Any, chunk: Any) -> NDArray[np.bool_]:
    first, last = chunk.offset, chunk.offset + len(chunk)
    return np.unpackbits(np.frombuffer(buffer, dtype=np.uint8), count=last, bitorder="little")[first:].astype(bool)


def _plain(chunk: Any, kind: type) -> NDArray[Any]:
    return np.frombuffer(chunk.buffers()[1], dtype=kind, count=chunk.offset + len(chunk))[chunk.offset :]


def _filled(chunk: Any, kind: type, null: float) -> NDArray[Any]:
    values = _plain(chunk, kind)
    return np.where(_bits(chunk.buffers()[0], chunk), values, null).astype(kind) if chunk.null_count else values


def _flags(chunk: Any) -> NDArray[np.bool_]:
    values = _bits(chunk.buffers()[1], chunk)
    return values & _bits(chunk.buffers()[0], chunk) if chunk.null_count else values


def _codes(indices: Any) -> NDArray[np.int32]:
    if indices.type != pa.int32():
        indices = indices.cast(pa.int32())
    return _filled(indices, np.int32, -1)


_NUMBERS: dict[Any, tuple[Callable[[Any], NDArray[Any]], type]] = {
    pa.int64(): (lambda chunk: _filled(chunk, np.int64, 0), np.int64),
    pa.float64(): (lambda chunk: _filled(chunk, np.float64, np.nan), np.float64),
    pa.bool_(): (_flags, np.bool_),
    pa.null(): (lambda chunk: np.full(len(chunk), np.nan), np.float64),
}
