"""Format `tensorboard`: event files (`events.out.tfevents.*`), one or a folder of them, in the order of their names.

A frame is a length, its checksum, a protobuf `Event` and its checksum. Almost every frame holds one scalar; a regular expression
reads those where they follow each other, and anything else is walked field by field. A torn last frame (a crash) is reported.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

from stages.train.imports.log import Column, Log, Unreadable
from stages.train.imports.protobuf import fields, varint

_SCALAR: Any = re.compile(  # Any: typeshed does not know Pattern.scanner
    rb"(.)\x00{7}.{4}"  # length below 256, checksum
    rb"\x09.{8}(?:\x10([\x80-\xff]*[\x00-\x7f]))?"  # wall time, step
    rb"\x2a.\x0a.\x0a(.)([^\x15]*)\x15(.{4}).{4}",  # summary, value, tag, simple_value, checksum
    re.S,
)
_FLOAT = struct.Struct("<f").unpack
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
        found.cells = [_FLOAT(cell)[0] if isinstance(cell, bytes) else cell for cell in found.cells]
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
        scan = _SCALAR.scanner(data, at)
        while found := scan.match():
            start, end = found.span()
            length, packed, size_of_tag, tag, value = found.groups()
            if end - start != length[0] + 16 or size_of_tag[0] != len(tag):
                break
            at = end
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
        if at >= size:
            break
        end, step, scalars = _frame(data, at, path)
        if end < 0:
            return f"the frame at byte {at} of {size} of {path.name} is torn"
        at = end
        for name, cell in scalars:
            row += 1
            last = object()
            index.append(step)
            column = columns.setdefault(name, Column())
            column.rows.append(row)
            column.cells.append(cell)
    return ""


def _unpacked(packed: bytes | None) -> int:
    if packed is None:  # protobuf leaves zeros out
        return 0
    value = varint(packed, 0)[0]
    return value if value < 1 << 63 else value - (1 << 64)


def _frame(data: bytes, at: int, path: Path) -> tuple[int, int, list[tuple[bytes, float]]]:
    """(end, step, scalars) of the frame at a place; end -1 when the file ends inside it."""
    if at + 12 > len(data):
        return -1, 0, []
    (length,) = struct.unpack_from("<Q", data, at)
    start, end = at + 12, at + 16 + length
    if end > len(data):
        if at == 0:
            raise Unreadable(f"{path} is no event file of TensorBoard")
        return -1, 0, []
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
