"""Format `tensorboard`: event files (`events.out.tfevents.*`), one or a folder of them, in the order of their names.

A frame is a length, its checksum, a protobuf `Event` and its checksum (masked CRC32C, as in TFRecord). Almost every frame holds one
scalar; a regular expression reads those where they follow each other, and anything else is walked field by field. Both checksums of
every frame are checked before anything of it counts. A file ends, for us as for TensorBoard, at its first frame that is torn (a crash)
or whose checksum is wrong, and says where and how much is behind it: what follows a wrong byte may begin anywhere.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from google_crc32c import value as crc32c

from stages.train.imports.log import Column, Log, Unreadable
from stages.train.imports.protobuf import fields, varint

_SCALAR: Any = re.compile(  # Any: typeshed does not know Pattern.scanner
    rb"(.\x00{7}.{4})"  # length below 256, checksum
    rb"(\x09.{8}(?:\x10([\x80-\xff]*[\x00-\x7f]))?"  # wall time, step
    rb"\x2a.\x0a.\x0a(.)([^\x15]*)\x15(.{4}))(.{4})",  # summary, value, tag, simple_value, checksum
    re.S,
)
_FLOAT = struct.Struct("<f").unpack
_BLOCK = 500
"""So many frames are looked at together; of more, Python's garbage collector counts the matches again and again."""
_MASK = 0xA282EAD8
_SUM = struct.Struct("<I").unpack
_STEP, _SUMMARY, _VALUE, _TAG, _SIMPLE, _TENSOR = 2, 5, 1, 1, 2, 8


def read(path: Path, index: str = "step") -> Log:
    """`index` has no meaning here: every event carries its step. Raises Unreadable for a file that is none."""
    files = sorted(path.rglob("*tfevents*")) if path.is_dir() else [path]
    if not files:
        raise Unreadable(f"{path} holds no event file (`*tfevents*`)")
    log = Log([], {})
    tags: dict[bytes, Column] = {}
    cuts = [cut for file in files if (cut := _file(file, log.index, tags))]
    for tag, found in tags.items():
        found.cells = _unpacked_cells(found.cells)
        log.columns[tag.decode("utf-8", "replace")] = found
    log.cut = "; ".join(cuts)
    folders = sorted({file.parent.as_posix() for file in files})
    if len(folders) > 1:
        log.notes.append(
            f"event files of {len(folders)} folders were read as one run: {', '.join(folders[:3])}" + ", ..." * (len(folders) > 3)
        )
    return log


def _file(path: Path, index: list[Any], columns: dict[bytes, Column]) -> str:
    """Add one file's events, and say where it is cut. Cells of the fast way stay packed floats until all is read."""
    data = path.read_bytes()
    at, size = 0, len(data)
    last: Any = object()  # a new file is a new row, whatever its step
    row = len(index) - 1
    while at < size:
        end, scalars = _scalars(data, at)
        while scalars:
            at = end
            for packed, tag, value in scalars:
                if packed != last:
                    last = packed
                    row += 1
                    index.append(_unpacked(packed))
                try:
                    column = columns[tag]
                except KeyError:
                    column = columns[tag] = Column()
                column.rows.append(row)
                column.cells.append(value)
            end, scalars = _scalars(data, at)
        if at >= size:
            break
        wrong = _wrong(data, at)
        if wrong and at == 0:
            raise Unreadable(f"{path} is no event file of TensorBoard: at its beginning {wrong}")
        if wrong:
            after = f" (after step {index[-1]})" if index else ""
            return f"{path.name}: at byte {at}{after} {wrong}, so its last {size - at} of {size} bytes were not read"
        at, step, others = _frame(data, at, path)
        for name, cell in others:
            row += 1
            last = object()
            index.append(step)
            column = columns.setdefault(name, Column())
            column.rows.append(row)
            column.cells.append(cell)
    return ""


def _scalars(data: bytes, at: int) -> tuple[int, list[tuple[bytes | None, bytes, bytes]]]:
    """The end of the frames of one scalar each that follow each other from a place, and (step, tag, value) of each as they are packed;
    at most _BLOCK, none behind one whose checksum is wrong. Frames are looked at together, which takes half the time."""
    found = list(islice(iter(_SCALAR.scanner(data, at).match, None), _BLOCK))
    if not found:
        return at, []
    heads, events, steps, sizes, tags, values, sums = zip(*[one.groups() for one in found], strict=True)
    crc = np.array(list(map(crc32c, events)), np.uint32)
    whole = (crc >> 15 | crc << 17) + np.uint32(_MASK) == np.frombuffer(b"".join(sums), "<u4")
    whole &= np.frombuffer(b"".join(heads), np.uint8)[:: len(heads[0])] == np.array(list(map(len, events)))
    whole &= np.frombuffer(b"".join(sizes), np.uint8) == np.array(list(map(len, tags)))
    wrong = {head for head in set(heads) if not _right(head[:8], head[8:])}
    if wrong:
        whole &= np.array([head not in wrong for head in heads])
    count = len(found) if whole.all() else int(whole.argmin())
    return (found[count - 1].end() if count else at), list(zip(steps[:count], tags[:count], values[:count], strict=True))


def _unpacked_cells(cells: Iterable[Any]) -> list[float]:
    try:
        found: list[float] = np.frombuffer(b"".join(cells), "<f4").tolist()
    except TypeError:  # some came the slow way, and are numbers already
        found = [_FLOAT(cell)[0] if isinstance(cell, bytes) else cell for cell in cells]
    return found


def _unpacked(packed: bytes | None) -> int:
    if packed is None:  # protobuf leaves zeros out
        return 0
    value = varint(packed, 0)[0]
    return value if value < 1 << 63 else value - (1 << 64)


def _right(data: bytes, checksum: bytes) -> bool:
    """Whether this is the masked CRC32C of the data."""
    crc = crc32c(data)
    return bool(((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF == _SUM(checksum)[0])


def _wrong(data: bytes, at: int) -> str:
    """What is wrong with the frame at a place; empty when it is whole and its checksums are right."""
    if at + 12 > len(data):
        return "a frame is torn"
    if not _right(data[at : at + 8], data[at + 8 : at + 12]):
        return "there are only zeros" if data.count(0, at) == len(data) - at else "the length of a frame has a wrong checksum"
    (length,) = struct.unpack_from("<Q", data, at)
    end = at + 12 + length
    if end + 4 > len(data):
        return "a frame is torn"
    return "" if _right(data[at + 12 : end], data[end : end + 4]) else "a frame has a wrong checksum"


def _frame(data: bytes, at: int, path: Path) -> tuple[int, int, list[tuple[bytes, float]]]:
    """(end, step, scalars) of the frame at a place, which is whole."""
    (length,) = struct.unpack_from("<Q", data, at)
    start, end = at + 12, at + 16 + length
    step, scalars = 0, []
    try:
        for number, wire, first, last in fields(data, start, end - 4):
            if number == _STEP and wire == 0:
                step = first if first < 1 << 63 else first - (1 << 64)
            elif number == _SUMMARY and wire == 2:
                scalars = [found for n, w, a, b in fields(data, first, last) if n == _VALUE and w == 2 and (found := _scalar(data, a, b))]
    except ValueError as error:
        raise Unreadable(f"the frame at byte {at} of {path} is no event: {error}") from None
    return end, step, scalars


def _scalar(data: bytes, at: int, end: int) -> tuple[bytes, float] | None:
    """(tag, value) of a Summary.Value that holds one number; None for images, texts and histograms."""
    tag, value = b"", None
    for number, wire, start, stop in fields(data, at, end):
        if number == _TAG and wire == 2:
            tag = data[start:stop]
        elif number == _SIMPLE and wire == 5:
            (value,) = _FLOAT(data[start:stop])
        elif number == _TENSOR and wire == 2:
            value = _tensor(data, start, stop)
    return None if value is None else (tag, value)


_DTYPES = {1: ("<f", 4), 2: ("<d", 8)}
"""TensorProto.dtype of float and double."""


def _tensor(data: bytes, at: int, end: int) -> float | None:
    kind, content = 0, b""
    for number, wire, start, stop in fields(data, at, end):
        if number == 1 and wire == 0:
            kind = start
        elif number in (4, 5, 6) and wire in (1, 2, 5):  # tensor_content, float_val, double_val
            content = data[start:stop]
    form = _DTYPES.get(kind)
    return struct.unpack(form[0], content)[0] if form and len(content) == form[1] else None
