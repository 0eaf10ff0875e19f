"""Binary logs: event files of TensorBoard (format `tensorboard`), and offline `.wandb` files (`wandb_file`).

Both are read with the classes of their own library, up to the first record that is torn (a crash) or whose checksum is wrong.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.train.imports.log import EVENT_STEP, WANDB_STEP, Log, Unreadable, bytes_of, content, from_rows, load_json, sentence


@dataclass
class _EventFile:
    """One event file, read up to the first frame that is not whole."""

    path: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    """Tags of what is no single number: images, texts, histograms."""
    begins: float = 0.0
    until: float = 0.0
    """Wall times of the first and the last event; 0 in a file without any."""
    cut: str = ""


def read_tensorboard(path: Path, index: str = EVENT_STEP) -> Log:
    """An event file, or a folder of them, in the order of the times at which they begin. Raises Unreadable for a file that is none. A tag
    that two files hold at the same time is unusable: a run that is resumed writes a new file when the old one has ended."""
    files = [
        _read_events(file) for file in (sorted(file for file in path.rglob("*tfevents*") if not file.is_dir()) if path.is_dir() else [path])
    ]
    files.sort(key=lambda file: (file.begins, file.path.as_posix()))
    if not files or (len(files) == 1 and files[0].cut and not files[0].begins):
        raise Unreadable("no_event_file", path=path)
    rows: list[dict[str, Any]] = []
    starts, elsewhere, unusable, latest = set[int](), set[int](), dict[str, Unreadable](), dict[str, _EventFile]()
    for above, file in zip([None, *files], files, strict=False):
        starts.add(len(rows))
        elsewhere |= {len(rows)} if above is not None and above.path.parent != file.path.parent else set()
        rows += file.rows
        for tag in sorted({name for row in file.rows for name in row} - {EVENT_STEP}):
            if tag in latest and file.begins < latest[tag].until:
                unusable.setdefault(tag, Unreadable("at_once", column=tag, first=latest[tag].path, second=file.path))
            latest[tag] = file
    log = from_rows(rows, EVENT_STEP)
    log.starts, log.elsewhere, log.unusable = starts, elsewhere, unusable
    log.no_numbers(tag for file in files for tag in file.others)
    log.cut = "; ".join(file.cut for file in files if file.cut)
    folders = {file.path.parent for file in files}
    log.notes += [sentence("several_folders", count=len(folders))] if len(folders) > 1 else []
    return log


def _read_events(path: Path) -> _EventFile:
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # TensorBoard takes a second to import
        from tensorboard.compat.tensorflow_stub import errors
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New
    except ImportError:
        raise Unreadable("no_tensorboard") from None
    bytes_of(path)  # raises Unreadable for what is no file to read
    file, reader = _EventFile(path), PyRecordReader_New(str(path).encode())
    while True:
        try:
            reader.GetNext()
            event = Event.FromString(reader.record())
            cells = [(value.tag, _scalar(value)) for value in event.summary.value]
        except errors.OutOfRangeError:
            return file
        except errors.DataLossError:
            after = f"after step {file.rows[-1][EVENT_STEP]}" if file.rows else "before its first number"
            file.cut = f"{path.name} is torn or damaged {after}"
            return file
        except Exception as error:  # protobuf's DecodeError has no types, and a tensor may hold less than its shape says
            raise Unreadable("no_event", path=path, error=error) from None
        file.begins, file.until = file.begins or event.wall_time, event.wall_time
        for tag, cell in cells:
            if cell is None:
                file.others.add(tag)
                continue
            if not file.rows or file.rows[-1][EVENT_STEP] != event.step or tag in file.rows[-1]:
                file.rows.append({EVENT_STEP: event.step})
            file.rows[-1][tag] = cell


def _scalar(value: Any) -> float | None:
    """A Summary.Value's number; None for what holds no single number."""
    from tensorboard.util.tensor_util import make_ndarray

    kind, scalar = value.WhichOneof("value"), None
    if kind == "simple_value":
        scalar = float(value.simple_value)
    elif kind == "tensor" and value.tensor.dtype in (1, 2):  # float and double
        # its shape first: a tensor of a few bytes may stand for one that no memory holds
        is_single = all(dimension.size == 1 for dimension in value.tensor.tensor_shape.dim)
        scalar = float(make_ndarray(value.tensor).reshape(-1)[0]) if is_single else None
    return scalar


# A .wandb file: a 7-byte header, and a LevelDB log: blocks of 32 KiB with records of crc32, length, kind (whole, first, middle, last).
# wandb reads its own records; its reader of the file around them is gone since 0.31.
_BLOCK = 32768
_BEGIN = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class _Torn(Exception):
    """A record that is not whole."""


def read_wandb_file(path: Path, index: str = WANDB_STEP) -> Log:
    """`_step` of W&B is not the training step: other libraries log rows of their own. Rows without the key `index` have no step and are
    left out later. Raises Unreadable for another kind of file."""
    data = content(path)
    if not data.startswith(_BEGIN):
        raise Unreadable("no_wandb_file", path=path)
    from wandb.proto.wandb_internal_pb2 import Record  # wandb takes a second to import

    rows: list[dict[str, Any]] = []
    exit_code: int | None = None
    cut = ""
    try:
        for message in _records(data):
            record = Record.FromString(message)
            if record.HasField("history"):
                rows.append({".".join(item.nested_key) or item.key: _wandb_cell(item.value_json) for item in record.history.item})
            elif record.HasField("exit"):
                exit_code = record.exit.exit_code
    except _Torn:
        cut = f"record of row {len(rows) + 1} or behind it is torn or has a wrong checksum"
    except Exception as error:  # protobuf's DecodeError has no types
        raise Unreadable("no_wandb_record", path=path, error=error) from None
    log = from_rows(rows, index)
    log.cut, log.failed = cut, f"exit code {exit_code}" if exit_code else ""
    log.no_numbers(name.removesuffix("._type") for name in log.columns if name.endswith("._type"))
    log.notes += [sentence("no_exit")] if exit_code is None else []
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


def _wandb_cell(text: str) -> Any:
    try:
        value = load_json(text.encode())
    except ValueError:
        return float(text) if text.strip().lower() in ("nan", "infinity", "-infinity") else "(not a number)"
    return value if value is None or isinstance(value, (str, bool, int, float)) else "(not a number)"
