"""What a stage's code means, and which files decide its result.

Comments, docstrings, formatting, descriptions of settings, what is printed and the words of errors do not count. Python alone runs this
module, so that its digests can be compared between versions of Python.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from collections.abc import Container
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path

from stages.contracts.code_cache import CodeCache, Meaning, code_cache

HARMLESS = frozenset(
    [
        *("attempt", "code", "diagnostic", "layout", "lineage", "retries", "stage"),
        *("attempts", "interrupts", "progress", "retries", "tracking"),
    ]
)
"""Last names of modules in contracts and train that decide no result: they never count, nor what only they import."""


@dataclass(frozen=True)
class _Module:
    """What one file means, with the data beside it (`history.csv` or `history.yaml` of `history.py`)."""

    file: str
    """Relative to the root."""
    digest: str
    imports: tuple[str, ...]
    """Names that may be modules; `from a.b import c` gives a.b and a.b.c, and names of no file are dropped later."""


class CodeTree:
    """The code of one package below a folder, or of all that lies there. Each module is read once, so the code must not change while
    this object is used."""

    def __init__(self, root: Path, package: str = "stages") -> None:
        """`package`: the one whose imports are followed; "" follows all."""
        self.root, self.package = root, package
        self._modules: dict[str, _Module | None] = {}
        self._cache = code_cache()

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
                queue.extend([*read.imports, name.rpartition(".")[0]])  # a package's own file runs before its modules
        self._cache.save()
        return sorted(closure.items())

    def _read(self, name: str) -> _Module | None:
        path = name.replace(".", "/")
        for file in (f"{path}/__init__.py", f"{path}.py"):  # in Python's order
            if name and (self.root / file).is_file():
                tables = ((self.root / file).with_suffix(suffix) for suffix in (".csv", ".yaml"))
                data = "".join(table.read_text(encoding="utf-8") for table in tables if table.is_file())
                meaning, imports = _understood(self._cache, file, (self.root / file).read_text(encoding="utf-8"), data)
                return _Module(file, meaning, tuple(name for name in imports if self.package in ("", name.split(".")[0])))
        return None


def _understood(cache: CodeCache, file: str, text: str, data: str) -> Meaning:
    """Digest of what a file means, and the names that it imports. Parsing takes most of the time of many a command, so what was parsed
    once is kept, for this version of Python and of this module."""
    key = _digest(f"{_own()}\0{file}\0{len(text)}\0{text}{data}")
    if key in cache.entries:
        return cache.entries[key]
    statements: list[ast.Import | ast.ImportFrom] = []
    meaning = _meaning(ast.parse(text), statements)
    names = tuple(name for statement in statements for name in _imported(file, statement))
    return cache.put(key, (_digest(meaning + data), names))


@functools.cache
def _own() -> str:
    return _digest(f"{sys.version}\0{Path(__file__).read_text(encoding='utf-8')}")


def _is_harmless(module: str) -> bool:
    package, _, name = module.rpartition(".")
    return package in ("stages.contracts", "stages.train") and name in HARMLESS


def _imported(file: str, statement: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    origin = resolve_name("." * statement.level + (statement.module or ""), file.rpartition("/")[0].replace("/", "."))
    return [origin, *(f"{origin}.{alias.name}" for alias in statement.names)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_IGNORED = {"ctx", "kind", "type_comment", "type_ignores"}
_WORDS_OF_FIELDS = {"description", "examples", "title"}


def _meaning(node: object, imports: list[ast.Import | ast.ImportFrom]) -> str:
    """What a syntax tree means; its imports are added to a list. Not `ast.dump`, which differs between Python versions: 3.12 added
    type_params, 3.13 leaves empty fields out, and they split the texts of an f-string differently."""
    if isinstance(node, list):
        return "".join(f"{_meaning(item, imports)}," for item in node if not _is_words(item))
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Import | ast.ImportFrom):
        imports.append(node)
    if isinstance(node, ast.JoinedStr):
        texts = (str(part.value) if isinstance(part, ast.Constant) else f"\0{_meaning(part, imports)}\0" for part in node.values)
        return f"(JoinedStr {''.join(texts)})"
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if name in ("StageError", "ArtifactError"):
        return name
    parts = [type(node).__name__]
    for field in node._fields:
        value = getattr(node, field, None)
        if name == "Field" and field == "keywords":
            value = [keyword for keyword in value or () if keyword.arg not in _WORDS_OF_FIELDS]
        if value is not None and value != [] and field not in _IGNORED:
            parts.append(f"{field}={_meaning(value, imports)}")
    return f"({' '.join(parts)})"


def _is_words(node: object) -> bool:
    """A bare string (a docstring, or an attribute's description), or a `print`."""
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str)
    return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "print"
