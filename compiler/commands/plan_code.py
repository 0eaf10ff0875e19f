"""Which functions changed between two states of our code. Comments, docstrings and formatting do not count, as in the code hash itself."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from compiler.commands.plan_git import commits_of, extract
from stages.contracts.artifact import digest
from stages.contracts.code_hash import PACKAGES, Code, _tokens

COMMITS = 12
"""So many older states of the code are looked at."""


def changed_code(old: Path, new: Path, modules: Iterable[str]) -> list[str]:
    """Lines such as `stages/train/rewards/format.py: judge, Settings` for what differs in the import closure of the modules."""
    wanted = list(modules)
    before, after = (Code(root).files(wanted) for root in (old, new))
    lines = []
    for file in sorted(before | after):
        if file not in before:
            lines.append(f"{file} is new")
        elif file not in after:
            lines.append(f"{file} is no longer used")
        elif names := changed_definitions((old / file).read_text(encoding="utf-8"), (new / file).read_text(encoding="utf-8")):
            lines.append(f"{file}: {', '.join(names)}")
    return lines


def changed_definitions(old: str, new: str) -> list[str]:
    """Functions, methods (`Class.method`) and classes that differ, in the newer text's order; `top level` for what lies outside of them."""
    before, after = definitions(old), definitions(new)
    return [name for name in dict.fromkeys((*after, *before)) if before.get(name) != after.get(name)]


def definitions(text: str) -> dict[str, str]:
    """Name -> digest of what it means. A class's own lines count under its name, its methods under theirs."""
    found: dict[str, list[str]] = {}
    outside: list[str] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _tokens(node, found.setdefault(node.name, []).append)
        elif isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            for method in methods:
                _tokens(method, found.setdefault(f"{node.name}.{method.name}", []).append)
            node.body = [part for part in node.body if part not in methods]
            _tokens(node, found.setdefault(node.name, []).append)
        else:
            _tokens(ast.Module(body=[node], type_ignores=[]), outside.append)
    return {name: digest("".join(tokens)) for name, tokens in {**found, "top level": outside}.items()}


@dataclass
class OldCode:
    """Older states of the code, taken from git until one has the wanted hash."""

    root: Path
    """Today's code."""
    first: list[str] = field(default_factory=list)
    """Commits to look at first: those that the attempts name."""
    _folder: tempfile.TemporaryDirectory[str] | None = None
    _states: list[Path] | None = None
    _found: dict[tuple[str, tuple[str, ...]], list[str] | None] = field(default_factory=dict)
    _next: int = 0

    def changes(self, wanted: str, modules: Iterable[str]) -> list[str] | None:
        """What changed since the code had this hash; None when no recent commit has it."""
        key = (wanted, tuple(sorted(modules)))
        if key not in self._found:
            state = self._state(lambda root: Code(root).hash(key[1]) == wanted)
            self._found[key] = changed_code(state, self.root, key[1]) if state is not None else None
        return self._found[key]

    def close(self) -> None:
        """Remove what was extracted."""
        if self._folder is not None:
            self._folder.cleanup()

    def _state(self, fits: Callable[[Path], bool]) -> Path | None:
        if self._states is None:
            self._states = []
            self._folder = tempfile.TemporaryDirectory(prefix="octavo-plan-")
            self._commits = list(dict.fromkeys((*self.first, *commits_of(PACKAGES[0], COMMITS))))
        for state in self._states:
            if _safe(fits, state):
                return state
        assert self._folder is not None
        while self._next < len(self._commits):
            commit = self._commits[self._next]
            self._next += 1
            to = Path(self._folder.name) / str(self._next)
            if extract(commit, to, PACKAGES[0]):
                self._states.append(to)
                if _safe(fits, to):
                    return to
        return None


def _safe(fits: Callable[[Path], bool], root: Path) -> bool:
    """Old code may be broken in ways that today's is not."""
    try:
        return fits(root)
    except (SyntaxError, ValueError, OSError):
        return False
