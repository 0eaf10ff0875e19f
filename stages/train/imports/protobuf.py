"""The wire format of Protocol Buffers, as far as logs need it: fields of a message, without a schema and without copies."""

from __future__ import annotations

from collections.abc import Iterator

Field = tuple[int, int, int, int]
"""(number, wire type, start, end); of a varint (wire type 0) start holds the value."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends. Raises IndexError at the end of the data, ValueError when it has more than ten bytes."""
    value = data[at]
    at += 1
    if value < 128:
        return value, at
    value &= 127
    for shift in range(7, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a varint of more than ten bytes")


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """Fields of the message at data[at:end]. Raises ValueError for anything that is no message."""
    try:
        while at < end:
            tag, at = varint(data, at)
            number, wire = tag >> 3, tag & 7
            if wire == 0:
                value, at = varint(data, at)
                yield number, wire, value, at
                continue
            if wire == 2:
                length, at = varint(data, at)
            elif wire in (1, 5):
                length = 8 if wire == 1 else 4
            else:
                raise ValueError(f"wire type {wire}")
            if at + length > end:
                raise ValueError("a field longer than its message")
            yield number, wire, at, at + length
            at += length
    except IndexError:
        raise ValueError("a message that ends too early") from None
