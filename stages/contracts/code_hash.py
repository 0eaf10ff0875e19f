"""The code hash of a stage: what its Python code means, not how it is written.

It covers the stage's import closure inside this project (imports inside functions too) plus the plug-ins its card names.
Comments, docstrings, formatting, line numbers and type-ignore marks do not count. The hash is made from our own walk of the
syntax tree because `ast.dump` differs between Python versions (3.12 added type_params, 3.13 leaves empty fields out).
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stages.contracts.artifact import digest

PACKAGES = ("stages",)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements hold statements: an import is one, so expressions need not be looked at."""
_IGNORED = {"ctx", "kind", "type_comment", "type_ignores"}


@dataclass(frozen=True)
class Module:
    """What one file means."""

    hash: str
    imports: tuple[str, ...]
    """Names that may be modules; `from a.b import c` gives a.b and a.b.c, and the caller drops what is no file."""


known: dict[str, Module] = {}
"""Digest of a module's text -> what it means. That depends on the text alone, so an entry cannot become wrong."""


class Code:
    """The modules of one state of the code, each looked for and read once: it must not change meanwhile. `root` holds the packages."""

    def __init__(self, root: Path) -> None:
        self.root = os.fspath(root)
        self._found: dict[str, tuple[str, Module] | None] = {}

    def hash(self, modules: Iterable[str]) -> str:
        """Hash of the import closure of dotted module names, 16 hex digits."""
        return digest("".join(f"{name}\0{found.hash}\n" for name, (_, found) in self._closure(modules)))[:16]

    def files(self, modules: Iterable[str]) -> set[str]:
        """Files, relative to root, of all project modules that the given ones import, directly or not."""
        return {file for _, (file, _) in self._closure(modules)}

    def _closure(self, modules: Iterable[str]) -> list[tuple[str, tuple[str, Module]]]:
        seen: dict[str, tuple[str, Module]] = {}
        queue = list(modules)
        while queue:
            name = queue.pop()
            if name in seen:
                continue
            if name not in self._found:
                self._found[name] = self._read(name)
            found = self._found[name]
            if found is not None:
                seen[name] = found
                queue.extend(found[1].imports)
        return sorted(seen.items())

    def _read(self, name: str) -> tuple[str, Module] | None:
        path = name.replace(".", "/")
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if os.path.isfile(f"{self.root}/{file}"):
                return file, _module(f"{self.root}/{file}")
        return None


def code_hash(root: Path, modules: Iterable[str]) -> str:
    """Hash of the import closure of dotted module names in the code as it is now, 16 hex digits."""
    return Code(root).hash(modules)


def _module(file: str) -> Module:
    with open(file, encoding="utf-8") as stream:
        text = stream.read()
    key = digest(text)
    if key not in known:
        tree = ast.parse(text)
        tokens: list[str] = []
        _tokens(tree, tokens.append)
        known[key] = Module(digest("".join(tokens)), tuple(_imports(file, tree)))
    return known[key]


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
                raise ValueError(f"{file}:{node.lineno}: relative import; the code hash needs absolute ones")
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (found for found in names if found.split(".")[0] in PACKAGES)


def _tokens(node: object, emit: Callable[[str], None]) -> None:
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
            if field == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                value = [child for child in value if not _is_text(child)]
            if type(value) is str:  # names, mostly: a call less each is felt
                emit(f" {field}=str:{value!r};")
                continue
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


def _is_text(node: ast.stmt) -> bool:
    """A bare string statement: a docstring, or an attribute's description."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
