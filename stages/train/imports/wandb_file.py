"""Format `wandb_file`: an offline `.wandb` file.

A 7-byte header (`:W&B`, 0xBEE1, version 0) and a LevelDB log: blocks of 32 KiB with records of crc32, length, kind (whole, first,
middle, last). wandb reads its own records; its reader of the file around them is gone since 0.31. A file that was cut (a crash) is read
up to the torn record.

`_step` of W&B is not the training step: other libraries log rows of their own. Rows without the key `index` have no step and are left
out later.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.train.imports.log import WANDB_STEP, Log, Unreadable, content, from_rows, load_json

_BLOCK = 32768
_BEGIN = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class _Torn(Exception):
    """A record that is not whole."""


def read_wandb_file(path: Path, index: str = WANDB_STEP) -> Log:
    """Raises Unreadable for another kind of file. A torn record ends the log, which says so in `cut`."""
    data = content(path)
    if not data.startswith(_BEGIN):
        raise Unreadable(f"{path} is no .wandb file of version 0")
    from wandb.proto.wandb_internal_pb2 import Record  # wandb takes a second to import

    rows: list[dict[str, Any]] = []
    exit_code: int | None = None
    cut = ""
    try:
        for message in _records(data):
            record = Record.FromString(message)
            if record.HasField("history"):
                rows.append({".".join(item.nested_key) or item.key: _cell(item.value_json) for item in record.history.item})
            elif record.HasField("exit"):
                exit_code = record.exit.exit_code
    except _Torn:
        cut = f"record of row {len(rows) + 1} or behind it is torn or has a wrong checksum"
    except Exception as error:  # protobuf's DecodeError has no types
        raise Unreadable(f"a record of {path} is none that wandb knows: {error}") from None
    log = from_rows(rows, index)
    log.cut = cut
    log.no_numbers = {name.removesuffix("._type") for name in log.columns if name.endswith("._type")}  # histograms, tables, media
    if exit_code:
        log.failed = f"exit code {exit_code}"
    elif exit_code is None:
        log.notes.append("the file has no exit record, so the program that wrote it was killed or is still running")
    return log


def _records(data: bytes) -> Iterator[bytes]:
    """Whole records. Raises _Torn at one that the file ends in, or whose checksum is wrong."""
    position = len(_BEGIN)
    parts: list[bytes] = []
    while position + _HEADER.size <= len(data):
        left = _BLOCK - position % _BLOCK
        checksum, length, kind = _HEADER.unpack_from(data, position)
        if left < _HEADER.size or not (checksum or length or kind):  # zeros fill the rest of a block
            position += left
            continue
        position += _HEADER.size
        piece = data[position : position + length]
        if len(piece) < length or not _WHOLE <= kind <= _LAST or zlib.crc32(piece, zlib.crc32(bytes([kind]))) != checksum:
            raise _Torn
        parts.append(piece)
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts)
            parts = []
        position += length
    if parts or data[position:].strip(b"\0"):
        raise _Torn


def _cell(text: str) -> Any:
    try:
        value = load_json(text.encode())
    except ValueError:
        return math.inf if text.strip().lower() in ("nan", "infinity", "-infinity") else "(not a number)"
    return value if value is None or isinstance(value, (str, bool, int, float)) else "(not a number)"
