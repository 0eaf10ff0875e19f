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

from stages.train.imports.log import WANDB_STEP, Log, Unreadable, from_rows
from stages.train.imports.text import load_json

_BLOCK = 32768
_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def read_wandb_file(path: Path, index: str = WANDB_STEP) -> Log:
    """Raises Unreadable for another kind of file. A torn record ends the log, which says so in `cut`."""
    if path.is_dir():
        raise Unreadable(f"{path} is a folder: name the .wandb file in it")
    data = path.read_bytes()
    if not data:
        raise Unreadable(f"{path} is empty")
    if data[:4] != b":W&B" or len(data) < 7 or struct.unpack("<HB", data[4:7]) != (0xBEE1, 0):
        raise Unreadable(f"{path} is no .wandb file of version 0")
    from wandb.proto.wandb_internal_pb2 import Record  # wandb takes a second to import

    rows: list[dict[str, Any]] = []
    cuts: list[str] = []
    exit_code: int | None = None
    for content in _records(data, cuts):
        try:
            record = Record.FromString(content)
        except Exception as error:  # protobuf's DecodeError has a different home in each version
            raise Unreadable(f"a record of {path} is none that wandb knows: {error}") from None
        if record.HasField("history"):
            rows.append({".".join(item.nested_key) or item.key: _cell(item.value_json) for item in record.history.item})
        elif record.HasField("exit"):
            exit_code = record.exit.exit_code
    log = from_rows(rows, index)
    log.cut = "".join(cuts)
    log.no_numbers = {name.removesuffix("._type") for name in log.columns if name.endswith("._type")}  # histograms, tables, media
    if exit_code:
        log.failed = f"exit code {exit_code}"
    elif exit_code is None:
        log.notes.append("the file has no exit record, so the program that wrote it was killed or is still running")
    return log


def _records(data: bytes, cuts: list[str]) -> Iterator[bytes]:
    """Whole records. `cuts` gets a sentence when the file ends inside one, or a checksum fails."""
    position, size, begun = 7, len(data), 7
    parts: list[bytes] = []
    while position + 7 <= size:
        left = _BLOCK - position % _BLOCK
        if left < 7:
            position += left
            continue
        checksum, length, kind = _HEADER.unpack_from(data, position)
        if not length and not kind and not checksum:  # zeros to the end of a block, or of a file that was never finished
            if not data[position:].strip(b"\0"):
                break
            position += left
            continue
        end = position + 7 + length
        piece = data[position + 7 : end]
        fault = "is torn" if end > size or not _WHOLE <= kind <= _LAST or 7 + length > left else ""
        if not fault and zlib.crc32(piece, zlib.crc32(bytes([kind]))) != checksum:
            fault = "has a wrong checksum"
        if fault:
            cuts.append(_cut(begun if parts else position, size, fault))
            return
        if kind in (_WHOLE, _FIRST):
            begun, parts = position, []
        parts.append(piece)
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts)
            parts = []
        position = end
    if parts or data[position:].strip(b"\0"):
        cuts.append(_cut(begun if parts else position, size, "is torn"))


def _cut(position: int, size: int, fault: str) -> str:
    return f"the record at byte {position} {fault}, so the last {size - position} of {size} bytes were not read"


def _cell(text: str) -> Any:
    try:
        value = load_json(text.encode())
    except ValueError:
        return math.inf if text.strip().lower() in ("nan", "infinity", "-infinity") else "(not a number)"
    return value if value is None or isinstance(value, (str, bool, int, float)) else "(not a number)"
