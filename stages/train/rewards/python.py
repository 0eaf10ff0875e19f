"""Gate `python`: a function of this repository scores the completion. It is trusted code and runs in the stage's own process.

Its code is part of the card: the compiler writes the hash of the function's module, and of all project modules that it imports,
into `code`, so a changed function is a changed card, and a card of other code is never scored.
"""

from __future__ import annotations

import ast
import copy
import importlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from stages.contracts.artifact import Frozen, digest, file_digest
from stages.contracts.plugin import Answer, Judgement


class Settings(Frozen):
    """Which function, and from which score on it passes."""

    function: str = Field(
        description="`module:function`; the module is a file of the project, such as `rewards.tone:score` for rewards/tone.py."
    )
    passes_from: float = Field(1.0, ge=0, le=1, description="Lowest score that passes; true and false count as 1 and 0.")
    code: str | None = Field(None, description="Written by octavo: hash of the function's code, which must not change under a card.")

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, function: str) -> str:
        module, _, name = function.partition(":")
        if not all(part.isidentifier() and part.isascii() for part in [*module.split("."), name]):
            raise ValueError(f"{function!r} is not module:function")
        file = _file(module)
        if file is None:
            raise ValueError(f"the project has no module {module!r}: neither {module.replace('.', '/')}.py nor a package of that name")
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"{module!r} is no Python: {error}") from None
        if name not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            raise ValueError(f"the module {module!r} defines no function {name!r}")
        if hash_now(function) is None:
            raise ValueError(f"a project module that {module!r} imports is no Python")
        return function

    @model_validator(mode="before")
    @classmethod
    def _with_code(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("code") is None and isinstance(given.get("function"), str):
            return {**given, "code": hash_now(given["function"])}
        return given


def hash_now(function: str) -> str | None:
    """Hash of the module of `module:function` and of the project's modules that it imports, as on disk; None when one is no Python."""
    queue = [function.partition(":")[0]]
    files: dict[str, Path] = {}
    try:
        while queue:
            name = queue.pop()
            if name not in files and (file := _file(name)):
                files[name] = file
                queue += [name.rpartition(".")[0], *_imports(name, file)]
    except (SyntaxError, ValueError, OSError, ImportError):
        return None
    return digest("".join(f"{name}\0{file_digest(file)}\n" for name, file in sorted(files.items())))[:16] if files else None


def _imports(name: str, file: Path) -> Iterator[str]:
    """Dotted names that may be modules; those outside the project have no file here and drop out."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package) if package or not node.level else ""
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """`function(text, row)` gives a score 0..1, a truth value, or None for unknown. What it raises is unknown, for that answer."""
    if settings.code is None or hash_now(settings.function) != settings.code:
        return [_unknown(f"the code of {settings.function} is not what the card was compiled for: run octavo compile")] * len(answers)
    function = _load(settings.function)
    return [_judge(settings, function, answer) for answer in answers]


def _judge(settings: Settings, function: Callable[[str, dict[str, Any]], Any], answer: Answer) -> Judgement:
    try:
        score = function(answer.text, copy.deepcopy(dict(answer.row)))
    except (Exception, SystemExit) as error:
        return _unknown(f"{settings.function} raised {type(error).__name__}: {error}", broken=True)
    if score is None:
        return _unknown(f"{settings.function} does not know")
    if not isinstance(score, int | float) or not math.isfinite(score) or not 0 <= score <= 1:
        return _unknown(f"{settings.function} gave {str(score)[:80]!r}, which is no score from 0 to 1", broken=True)
    return Judgement("pass" if score >= settings.passes_from else "fail", float(score))


def _unknown(reason: str, broken: bool = False) -> Judgement:
    return Judgement("unknown", None, reason.encode("utf-8", "backslashreplace").decode()[:300], broken=broken)


def _file(module: str) -> Path | None:
    if not module or not all(part.isidentifier() for part in module.split(".")):
        return None
    path = Path.cwd().joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _load(function: str) -> Callable[[str, dict[str, Any]], Any]:
    """Import the function. Raises ValueError when an installed package of the same name hides the project's module."""
    name, _, attribute = function.partition(":")
    root = str(Path.cwd())
    if root not in sys.path:
        sys.path.insert(0, root)
    module = importlib.import_module(name)
    file = _file(name)
    if file is None or Path(module.__file__ or "").resolve() != file.resolve():
        raise ValueError(f"another module {name!r} is loaded, from {module.__file__}")
    return getattr(module, attribute)  # type: ignore[no-any-return]
