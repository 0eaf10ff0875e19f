"""What a stage's code means, and which files decide its result.

Comments, docstrings, formatting, descriptions of settings, what is printed and the words of errors do not count. Python alone runs this
module, so that its digests can be compared between versions of Python.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path

HARMLESS = frozenset(
    [
        *("attempt", "code", "diagnostic", "layout", "lineage", "retries", "stage"),
        *("attempts", "failures", "interrupts", "progress", "retries", "tracking"),
    ]
)
"""Last names of modules in contracts and train that decide no result: they never count, nor what only they import."""


@dataclass(frozen=True)
class _Module:
    """What one file means."""

    file: str
    """Relative to the root."""
    digest: str
    imports: tuple[str, ...]
    """Names that may be modules; `from a.b import c` gives a.b and a.b.c, and names of no file are dropped later."""


class CodeTree:
    """The stages' code below one folder. Each module is read once, so the code must not change while this object is used."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, _Module | None] = {}

    def digest(self, module: str, without: Container[str] = ()) -> str:
        """What the import closure of a module means, as 12 hex digits. `without`: files that a version covers already, so that a new
        octavo does not change the digest of a user's own gate."""
        return _digest("".join(f"{name}\0{part.digest}\n" for name, part in self._closure(module) if part.file not in without))[:12]

    def files(self, module: str) -> set[str]:
        """Files, relative to the root, that a module's digest covers."""
        return {part.file for _, part in self._closure(module)}

    def _closure(self, module: str) -> list[tuple[str, _Module]]:
        closure: dict[str, _Module] = {}
        queue = [module]
        while queue:
            name = queue.pop()
            if name in closure or _is_harmless(name):
                continue
            if name not in self._modules:
                self._modules[name] = self._read(name)
            read = self._modules[name]
            if read is not None:
                closure[name] = read
                queue.extend(read.imports)
        return sorted(closure.items())

    def _read(self, name: str) -> _Module | None:
        path = name.replace(".", "/")
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if (self.root / file).is_file():
                return _module(file, (self.root / file).read_text(encoding="utf-8"))
        return None


@functools.cache  # one process may look at the same files again: `octavo plan` does, and tests do
def _module(file: str, text: str) -> _Module:
    tree = ast.parse(text)
    tokens: list[str] = []
    _tokens(tree, tokens.append)
    return _Module(file, _digest("".join(tokens)), tuple(_imports(file, tree)))


def _is_harmless(module: str) -> bool:
    package, _, name = module.rpartition(".")
    return package in ("stages.contracts", "stages.train") and name in HARMLESS


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements hold statements: an import is one, so expressions need not be looked at."""


def _imports(file: str, tree: ast.Module) -> Iterator[str]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for block in _BLOCKS:
            waiting += getattr(node, block, ())
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{file}:{node.lineno}: relative import; code versions need absolute ones")
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "stages")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_IGNORED = {"ctx", "kind", "type_comment", "type_ignores"}
_WORDS_OF_FIELDS = {"description", "examples", "title"}


def _tokens(node: object, emit: Callable[[str], None]) -> None:
    """What a syntax tree means. Own walk, because `ast.dump` differs between Python versions: 3.12 added type_params, 3.13 leaves
    empty fields out."""
    if isinstance(node, ast.JoinedStr):
        emit("(JoinedStr")
        for part in _merged(node.values):
            _tokens(part, emit)
        emit(")")
    elif isinstance(node, ast.AST):
        emit(f"({type(node).__name__}")
        for field in node._fields:
            value = getattr(node, field, None)
            if value is None or field in _IGNORED or (isinstance(value, list) and not value):
                continue
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                value = [child for child in value if not _is_words(child)]
            if isinstance(node, ast.Call) and field in ("args", "keywords"):
                value = _meaning_of_arguments(node, field, value)
            emit(f" {field}=")
            _tokens(value, emit)
        emit(")")
    elif isinstance(node, list):
        emit("[")
        for item in node:
            _tokens(item, emit)
        emit("]")
    else:
        emit(f"{type(node).__name__}:{node!r};")


def _meaning_of_arguments(call: ast.Call, field: str, values: list[ast.AST]) -> list[ast.AST]:
    """Arguments of a call without descriptions of settings and words of errors."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name in ("StageError", "ArtifactError"):
        return []
    if name == "Field" and field == "keywords":
        return [value for value in values if not (isinstance(value, ast.keyword) and value.arg in _WORDS_OF_FIELDS)]
    return values


def _merged(values: list[ast.expr]) -> list[ast.expr]:
    """Neighbouring texts of an f-string as one: how they are split differs between Python versions."""
    merged: list[ast.expr] = []
    for value in values:
        last = merged[-1] if merged else None
        if isinstance(value, ast.Constant) and isinstance(last, ast.Constant):
            merged[-1] = ast.Constant(value=str(last.value) + str(value.value))
        elif not (isinstance(value, ast.Constant) and value.value == ""):
            merged.append(value)
    return merged


def _is_words(node: ast.stmt) -> bool:
    """A bare string (a docstring, or an attribute's description), or a `print`."""
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str)
    return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "print"
