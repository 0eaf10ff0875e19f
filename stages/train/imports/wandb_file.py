"""Format `wandb_file`: an offline `.wandb` file, read without wandb, whose own reader is gone since 0.31.

A 7-byte header (`:W&B`, 0xBEE1, version 0) and a LevelDB log: blocks of 32 KiB with records of crc32, length, kind (whole, first,
middle, last). Each record is a protobuf `Record`; history is field 2, exit is field 18. A file that was cut (a crash) is read up to
the torn record.

`_step` of W&B is not the training step: other libraries log rows of their own. Rows without the key `index` have no place and are
left out later.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.train.imports.json_text import loads
from stages.train.imports.log import WANDB_STEP, Column, Log, Unreadable
from stages.train.imports.protobuf import fields, varint

_BLOCK = 32768
_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_KIND = [zlib.crc32(bytes([kind])) for kind in range(5)]
_HISTORY, _EXIT = 2, 18
_ITEM_KEY, _ITEM_VALUE, _ITEM_NESTED = 0x0A, 0x82, 0x12


def read(path: Path, index: str = WANDB_STEP) -> Log:
    """Raises Unreadable for another kind of file. A torn record ends the log, which says so in `cut`."""
    if path.is_dir():
        raise Unreadable(f"{path} is a folder: name the .wandb file in it")
    data = path.read_bytes()
    if not data:
        raise Unreadable(f"{path} is empty")
    if data[:4] != b":W&B" or len(data) < 7 or struct.unpack("<HB", data[4:7]) != (0xBEE1, 0):
        raise Unreadable(f"{path} is no .wandb file of version 0")
    log = Log([], {})
    names: dict[bytes, str] = {}
    exit_code: int | None = None
    for record in _records(data, log):
        try:
            if record[0] == 0x12:  # field 2 and nothing before it: history, almost every record
                length, at = varint(record, 1)
                if at + length > len(record):
                    raise ValueError("a history longer than its record")
                _row(record, at, at + length, log, names)
                continue
            for number, wire, start, end in fields(record, 0, len(record)):
                if number == _HISTORY and wire == 2:
                    _row(record, start, end, log, names)
                elif number == _EXIT and wire == 2:
                    exit_code = next((value for inner, _, value, _ in fields(record, start, end) if inner == 1), 0)
        except (ValueError, IndexError) as error:
            raise Unreadable(f"a record of {path} is no history that octavo knows: {error}") from None
    log.no_numbers = {name.removesuffix("._type") for name in log.columns if name.endswith("._type")}  # histograms, tables, media
    log.index = _indexed(log, index)
    if exit_code:
        log.failed = f"exit code {exit_code}"
    elif exit_code is None:
        log.notes.append("the file has no exit record, so the program that wrote it was killed or is still running")
    return log


def _records(data: bytes, log: Log) -> Iterator[bytes]:
    """Whole records. Sets `log.cut` when the file ends inside one, or a checksum fails."""
    at, size, begun = 7, len(data), 7
    parts: list[bytes] = []
    crc32 = zlib.crc32
    while at + 7 <= size:
        left = _BLOCK - at % _BLOCK
        if left < 7:
            at += left
            continue
        checksum, length, kind = _HEADER.unpack_from(data, at)
        if not length and not kind and not checksum:  # zeros to the end of a block, or of a file that was never finished
            if data.count(0, at) == size - at:
                break
            at += left
            continue
        end = at + 7 + length
        if end > size or kind > _LAST or kind == 0 or 7 + length > left:
            log.cut = _cut(begun if parts else at, size, "is torn")
            return
        piece = data[at + 7 : end]
        if crc32(piece, _KIND[kind]) != checksum:
            log.cut = _cut(begun if parts else at, size, "has a wrong checksum")
            return
        if kind == _FIRST:
            begun = at
        at = end
        if kind == _WHOLE:
            yield piece
        elif kind == _FIRST:
            parts = [piece]
        else:
            parts.append(piece)
            if kind == _LAST:
                yield b"".join(parts)
                parts = []
    if parts or (at < size and data.count(0, at) != size - at):
        log.cut = _cut(begun if parts else at, size, "is torn")


def _cut(at: int, size: int, wrong: str) -> str:
    return f"the record at byte {at} {wrong}, so the last {size - at} of {size} bytes were not read"


def _row(data: bytes, at: int, end: int, log: Log, names: dict[bytes, str]) -> None:
    """One HistoryRecord: items with key (1) or nested keys (2), and the value as JSON text (16)."""
    number = len(log.index)
    log.index.append(None)
    columns = log.columns
    while at < end:
        if data[at] != 0x0A:  # the step (2) or later additions
            at = next(fields(data, at, end))[3]
            continue
        length, at = varint(data, at + 1)
        stop, key, value = at + length, b"", b"null"
        while at < stop:
            tag = data[at]
            if tag == _ITEM_VALUE:
                length, at = varint(data, at + 2)
                value = data[at : at + length]
            elif tag in (_ITEM_KEY, _ITEM_NESTED):
                length, at = varint(data, at + 1)
                key = key + b"." + data[at : at + length] if key else data[at : at + length]
            else:
                raise ValueError(f"tag {tag} in a history item")
            at += length
        name = names.get(key)
        if name is None:
            name = names[key] = key.decode("utf-8", "replace")
            columns[name] = Column()
        column = columns[name]
        column.rows.append(number)
        column.cells.append(_cell(value))


def _cell(value: bytes) -> Any:
    try:
        return float(value)
    except ValueError:
        found = loads(value)
        return found if found is None or isinstance(found, (str, bool)) else "(not a number)"


def _indexed(log: Log, index: str) -> list[Any]:
    found: list[Any] = [None] * len(log.index)
    column = log.columns.get(index)
    if column is not None:
        for row, cell in zip(column.rows, column.cells, strict=True):
            found[row] = cell
    return found
