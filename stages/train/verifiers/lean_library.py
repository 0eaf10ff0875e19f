"""Lean's own functions in this process, called over objects: what an object is made of, only Lean's constructors and this module decide.

Loaded inside a box from source text: standard library only. Functions are those of Lean 4.35; where older versions differ, as their sources
say, the library is asked what it has.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from stages.train.verifiers.lean_file import Name

_LEVELS = ("zero", 1), ("succ", 1), ("max", 2), ("imax", 2), ("param", 1)
_EXPRESSIONS = (
    (0, "bvar", 1), (3, "sort", 1), (4, "const", 2), (5, "app", 2), (6, "lambda", 4), (7, "forall", 4), (8, "let", 5), (9, "lit", 1),
    (11, "proj", 3),
)  # fmt: skip
"""Kind, name and number of arguments of the constructors that expressions of a file are made with."""


def box(number: int) -> int:
    """A small number, or a constructor without fields, as an object."""
    return 2 * number + 1


def tag(pointer: int) -> int:
    """The tag of an object in the memory of this process."""
    return pointer >> 1 if pointer & 1 else ctypes.c_uint8.from_address(pointer + 7).value


def field(pointer: int, place: int) -> int:
    """A field of an object in the memory of this process."""
    return ctypes.c_uint64.from_address(pointer + 8 + 8 * place).value


def kept(pointer: int) -> int:
    """The object, which Lean never frees from now on: it has no count of references. The process ends with its proof."""
    if not pointer & 1 and (count := ctypes.c_int32.from_address(pointer)).value:
        count.value = 0
    return pointer


class Library:
    """Lean's functions, over objects. Raises AttributeError or OSError where the library is of another kind."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
        self._objects: list[Any] = []
        self._names: dict[Name, int] = {(): box(0)}
        self.name_at: dict[int, Name] = {}
        self.level = [self._function(f"lean_level_mk_{name}", count) for name, count in _LEVELS]
        self.expression = {kind: self._function(f"lean_expr_mk_{name}", count) for kind, name, count in _EXPRESSIONS}
        self.find, self._used = self._function("lean_environment_find", 2), self._function("l_Lean_Expr_getUsedConstants", 1)
        self._text, self._number = self._function("lean_mk_string_from_bytes", 2), self._function("lean_cstr_to_nat", 1)
        self._name_of_text, self._name_of_number = self._function("lean_name_mk_string", 2), self._function("lean_name_mk_numeral", 2)
        self._limits = [0, 0] if hasattr(self._library, "_ZN4lean19scope_max_rec_depthC1Em") else [0]  # of steps, and of recursion
        self._add = self._function("lean_add_decl", 3 + len(self._limits))
        self._library.lean_initialize()
        self._library.lean_io_mark_end_initialization()
        self._done(self._function("lean_init_search_path", 1)(box(0)))

    def _function(self, name: str, count: int) -> Callable[..., int]:
        function = getattr(self._library, name)
        function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_void_p] * count
        return lambda *arguments: kept(function(*arguments))

    def object(self, tag: int, *fields: int, scalars: bytes = b"") -> int:
        """A constructor."""
        head = struct.pack("<iHBB", 0, 16 + 8 * len(fields), len(fields), tag)
        return self._made(head + struct.pack(f"<{len(fields)}Q", *fields) + scalars.ljust(8, b"\0"))

    def _made(self, content: bytes) -> int:
        self._objects.append(ctypes.create_string_buffer(content, len(content)))
        return ctypes.addressof(self._objects[-1])

    def sequence(self, items: list[int]) -> int:
        """A list."""
        pointer = box(0)
        for item in reversed(items):
            pointer = self.object(1, item, pointer)
        return pointer

    def text(self, text: str) -> int:
        """A string."""
        return self._text(content := text.encode(), len(content))

    def number(self, number: int) -> int:
        """A natural number."""
        return box(number) if number < 2**63 else self._number(str(number).encode())

    def name(self, name: Name) -> int:
        """A name; equal names are one object."""
        if name not in self._names:
            *before, part = name
            prefix = self.name(tuple(before))
            self._names[name] = (
                self._name_of_text(prefix, self.text(part)) if isinstance(part, str) else self._name_of_number(prefix, self.number(part))
            )
            self.name_at[self._names[name]] = name
        return self._names[name]

    def words(self, pointer: int) -> str:
        """A name as it is written, without quotation marks."""
        parts = []
        while not pointer & 1:
            part = field(pointer, 1)
            is_text = tag(pointer) == 1
            parts.append(ctypes.string_at(part + 32, field(part, 0) - 1).decode() if is_text else str(part >> 1))
            pointer = field(pointer, 0)
        return ".".join(reversed(parts))

    def constants(self, expression: int) -> list[int]:
        """Names of the constants in an expression."""
        array = self._used(kept(expression))
        return [field(array, 2 + place) for place in range(field(array, 0))]

    def imported(self, module: str) -> int:
        """The kernel's environment of a module."""
        imports = self._made(struct.pack("<iHBBQQQ", 0, 1, 0, 246, 1, 1, self.object(0, self.name((module,)))))
        nothing = self._made(struct.pack("<iHBBQQ", 0, 1, 0, 246, 0, 0))
        options = ctypes.c_uint64.in_dll(self._library, "l_Lean_Options_empty").value
        # trust level, plugins, never freed, without extensions, all that is private, no artifacts; versions that take fewer leave the rest
        import_ = self._function("l_Lean_importModules___boxed", 9)
        environment = self._done(import_(imports, options, box(0), nothing, box(1), box(0), box(2), box(1), box(0)))
        if hasattr(self._library, "lean_elab_environment_to_kernel_env"):  # one environment for both until 4.17
            return self._function("lean_elab_environment_to_kernel_env", 1)(environment)
        return environment

    def _done(self, result: int) -> int:
        if tag(result):
            raise OSError("Lean does not read what it compiled")
        return kept(field(result, 0))

    def added(self, environment: int, declaration: int) -> int | None:
        """The environment with a declaration that the kernel has checked; None where it refuses it."""
        result = self._add(environment, *self._limits, declaration, box(0))
        return kept(field(result, 0)) if tag(result) else None
