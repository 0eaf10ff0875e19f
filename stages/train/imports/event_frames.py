"""Frames of an event file: a length, its checksum, a protobuf `Event` and its checksum (masked CRC32C, as in TFRecord).

Almost every frame holds one scalar; a regular expression reads those where they follow each other, and anything else is walked field by
field. Both checksums of every frame are checked before anything of it counts.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from google_crc32c import value as crc32c

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
_TIME = struct.Struct("<d").unpack
_SUM = struct.Struct("<I").unpack
_TIMED, _STEP, _SUMMARY, _VALUE, _TAG, _SIMPLE, _TENSOR = 1, 2, 5, 1, 1, 2, 8


@dataclass
class Frame:
    """One frame of any kind."""

    end: int
    time: float = 0.0
    step: int = 0
    scalars: list[tuple[bytes, float]] = field(default_factory=list)
    others: list[bytes] = field(default_factory=list)
    """Tags of what is no single number: images, texts, histograms."""


class Scalars(NamedTuple):
    """Frames of one scalar each that follow each other."""

    end: int
    """Where the last one ends."""
    time: float
    """Wall time of the last one."""
    cells: list[tuple[bytes | None, bytes, bytes]]
    """(step, tag, value) of each, as they are packed."""


def scalars(data: bytes, at: int) -> Scalars:
    """Those that begin at a place: at most _BLOCK, none behind one whose checksum is wrong. They are looked at together, which takes half
    the time."""
    found = list(islice(iter(_SCALAR.scanner(data, at).match, None), _BLOCK))
    if not found:
        return Scalars(at, 0.0, [])
    heads, events, steps, sizes, tags, values, sums = zip(*[one.groups() for one in found], strict=True)
    crc = np.array(list(map(crc32c, events)), np.uint32)
    whole = (crc >> 15 | crc << 17) + np.uint32(_MASK) == np.frombuffer(b"".join(sums), "<u4")
    whole &= np.frombuffer(b"".join(heads), np.uint8)[:: len(heads[0])] == np.array(list(map(len, events)))
    whole &= np.frombuffer(b"".join(sizes), np.uint8) == np.array(list(map(len, tags)))
    wrong = {head for head in set(heads) if not _right(head[:8], head[8:])}
    if wrong:
        whole &= np.array([head not in wrong for head in heads])
    count = len(found) if whole.all() else int(whole.argmin())
    if not count:
        return Scalars(at, 0.0, [])
    cells = list(zip(steps[:count], tags[:count], values[:count], strict=True))
    return Scalars(found[count - 1].end(), _TIME(events[count - 1][1:9])[0], cells)


def unpacked(packed: bytes | None) -> int:
    """The step of a frame of one scalar."""
    if packed is None:  # protobuf leaves zeros out
        return 0
    value = varint(packed, 0)[0]
    return value if value < 1 << 63 else value - (1 << 64)


def _right(data: bytes, checksum: bytes) -> bool:
    """Whether this is the masked CRC32C of the data."""
    crc = crc32c(data)
    return bool(((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF == _SUM(checksum)[0])


def wrong(data: bytes, at: int) -> str:
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


def frame(data: bytes, at: int) -> Frame:
    """The frame at a place, which is whole. Raises ValueError for one that holds no event."""
    (length,) = struct.unpack_from("<Q", data, at)
    start, end = at + 12, at + 16 + length
    made = Frame(end)
    for number, wire, first, last in fields(data, start, end - 4):
        if number == _TIMED and wire == 1:
            made.time = _TIME(data[first:last])[0]
        elif number == _STEP and wire == 0:
            made.step = first if first < 1 << 63 else first - (1 << 64)
        elif number == _SUMMARY and wire == 2:
            for inner, kind, begin, stop in fields(data, first, last):
                if inner == _VALUE and kind == 2:
                    tag, value = _scalar(data, begin, stop)
                    if value is None:
                        made.others.append(tag)
                    else:
                        made.scalars.append((tag, value))
    return made


def _scalar(data: bytes, at: int, end: int) -> tuple[bytes, float | None]:
    """(tag, value) of a Summary.Value; None for images, texts and histograms, which hold no single number."""
    tag, value = b"", None
    for number, wire, start, stop in fields(data, at, end):
        if number == _TAG and wire == 2:
            tag = data[start:stop]
        elif number == _SIMPLE and wire == 5:
            (value,) = _FLOAT(data[start:stop])
        elif number == _TENSOR and wire == 2:
            value = _tensor(data, start, stop)
    return tag, value


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
