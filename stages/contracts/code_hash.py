"""The code hash of a stage: what its Python code means, not how it is written.

It covers the stage's import closure inside this project (imports inside functions too) plus the plug-ins its card names.
Comments, docstrings, formatting, line numbers and type-ignore marks do not count. The hash is made from our own walk of the
syntax tree because `ast.dump` differs between Python versions (3.12 added type_params, 3.13 leaves empty fields out).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stages.contracts.artifact import digest

PACKAGES = ("stages",)
_IGNORED = {"ctx", "kind", "type_comment", "type_ignores"}


def code_hash(root: Path, modules: Iterable[str]) -> str:
    """Hash of the import closure of dotted module names, 16 hex digits. `root` holds the packages."""
    return digest("".join(f"{name}\0{_module(root / file).hash}\n" for name, file in closure(root, modules)))[:16]


def closure(root: Path, modules: Iterable[str]) -> list[tuple[str, str]]:
    """Sorted (dotted name, file relative to root) of all project modules that the given ones import, directly or not."""
    seen: dict[str, str] = {}
    queue = list(modules)
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        file = _file(root, name)
        if file is None:
            continue
        seen[name] = file.relative_to(root).as_posix()
        queue.extend(_module(file).imports)
    return sorted(seen.items())


def _file(root: Path, name: str) -> Path | None:
    path = root.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@dataclass(frozen=True)
class _Module:
    hash: str
    imports: tuple[str, ...]
    """Names that may be modules; `from a.b import c` gives a.b and a.b.c, and the caller drops what is no file."""


def _module(file: Path) -> _Module:
    stat = file.stat()
    return _read(file, (stat.st_mtime_ns, stat.st_size))


@functools.cache
def _read(file: Path, _stamp: tuple[int, int]) -> _Module:
    """Each module is walked once a process: a compile hashes many cards whose closures overlap."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tokens: list[str] = []
    _tokens(tree, tokens.append)
    return _Module(digest("".join(tokens)), tuple(_imports(file, tree)))


def _imports(file: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
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
            if field in _IGNORED or value is None or value == []:
                continue
            if field == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                value = [child for child in value if not _is_text(child)]
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
