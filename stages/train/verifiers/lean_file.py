"""Read what Lean compiled, without Lean: the file may be forged by an answer, and Lean maps it into memory without a check.

Also loaded inside a box, from source text: standard library only. The format is that of Lean 4.35 (`src/runtime/compact.cpp`,
`src/library/module.cpp`); two older forms of its head are told apart.
"""

from __future__ import annotations

import struct

Name = tuple["str | int", ...]
AXIOM, DEFINITION, THEOREM, OPAQUE, QUOTIENT, INDUCTIVE, CONSTRUCTOR, RECURSOR = range(8)
"""Kinds of constants, as Lean numbers them."""
_HEADER_BYTES = {1: 56, 2: 88}
"""By version of the format; the last eight bytes are the address of the file."""
_CONSTRUCTORS, _ARRAY, _STRING, _NUMBER = 245, 246, 249, 250
_MOST_PARTS, _MOST_ITEMS = 1000, 100_000
"""Of a name; of a list."""


class Refused(Exception):
    """What was compiled is no proof, and why."""


class Compiled:
    """A compiled file. A pointer is an address as the file has it, or a number times two plus one.

    Every method raises Refused or ValueError where the file is odd. What it holds may refer to itself.
    """

    def __init__(self, data: bytes) -> None:
        if data[:5] != b"olean" or len(data) < 128 or data[5] not in _HEADER_BYTES:
            raise Refused("what was compiled is no file of a known version")
        self.data, self._start = data, _HEADER_BYTES[data[5]]
        self._names: dict[int, Name] = {1: ()}
        self._base: int
        root: int
        self._base, root = struct.unpack_from("<QQ", data, self._start - 8)
        if not self._start <= root - self._base < len(data):
            (root,) = struct.unpack_from("<Q", data, len(data) - 8)  # where older versions have it
        module = self.fields(root)[1]
        names = [self.name(pointer) for pointer in self._array(module[1])]
        self.constants = dict(zip(names, self._array(module[2]), strict=True))
        """Name -> pointer to what Lean knows of it."""

    def offset(self, pointer: int, size: int) -> int:
        """Where in the file an object of at least so many bytes begins."""
        offset = pointer - self._base
        if offset % 8 or not self._start <= offset <= len(self.data) - size:
            raise Refused("what was compiled points outside of itself")
        return offset

    def fields(self, pointer: int) -> tuple[int, tuple[int, ...]]:
        """The tag of a constructor and pointers to its fields."""
        if pointer & 1:
            return pointer >> 1, ()
        offset = self.offset(pointer, 8)
        count, tag = self.data[offset + 6], self.data[offset + 7]
        if tag >= _CONSTRUCTORS:
            raise Refused("what was compiled holds an object of a wrong kind")
        return tag, struct.unpack_from(f"<{count}Q", self.data, offset + 8)  # which raises at the end of the file

    def constant(self, name: Name) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """The kind of a constant, and pointers: to its fields; to its name, level parameters and type."""
        if name not in self.constants:
            raise Refused(f"`{'.'.join(map(str, name))}` is nowhere declared")
        kind, (value, *_) = self.fields(self.constants[name])
        fields = self.fields(value)[1]
        return kind, fields, self.fields(fields[0])[1]

    def scalar(self, pointer: int) -> bytes:
        """The four bytes after the head of an object without fields."""
        offset = self.offset(pointer, 16) + 8
        return self.data[offset : offset + 4]

    def items(self, pointer: int) -> list[int]:
        """Pointers to the items of a list."""
        items: list[int] = []
        while pointer != 1:
            _, (item, pointer) = self.fields(pointer)
            items.append(item)
            if len(items) > _MOST_ITEMS:
                raise Refused("what was compiled holds a list without end")
        return items

    def name(self, pointer: int) -> Name:
        """The parts of a name."""
        chain: list[tuple[int, str | int]] = []
        while pointer not in self._names:
            tag, (before, part) = self.fields(pointer)
            chain.append((pointer, self.number(part) if tag == 2 else self.text(part)))
            pointer = before
            if len(chain) > _MOST_PARTS:
                raise Refused("what was compiled holds a name without end")
        name = self._names[pointer]
        for place, last in reversed(chain):
            name = self._names[place] = (*name, last)
        return name

    def text(self, pointer: int) -> str:
        """A string."""
        offset = self._place(pointer, _STRING, 32)
        (size,) = struct.unpack_from("<Q", self.data, offset + 8)
        self.offset(pointer, 32 + size)
        return self.data[offset + 32 : offset + 31 + size].decode()

    def number(self, pointer: int) -> int:
        """A natural number of any size."""
        if pointer & 1:
            return pointer >> 1
        size, digits = struct.unpack_from("<iQ", self.data, self._place(pointer, _NUMBER, 24) + 12)
        if size < 0 or (self.data[5] > 1 and not self.data[6] & 1):
            raise Refused("what was compiled holds a number in an unknown form")
        offset = self.offset(digits, 8 * size)
        return int.from_bytes(self.data[offset : offset + 8 * size], "little")

    def _array(self, pointer: int) -> tuple[int, ...]:
        offset = self._place(pointer, _ARRAY, 24)
        (count,) = struct.unpack_from("<Q", self.data, offset + 8)
        self.offset(pointer, 24 + 8 * count)
        return struct.unpack_from(f"<{count}Q", self.data, offset + 24)

    def _place(self, pointer: int, tag: int, size: int) -> int:
        offset = self.offset(pointer, size)
        if self.data[offset + 7] != tag:
            raise Refused("what was compiled holds an object of a wrong kind")
        return offset
