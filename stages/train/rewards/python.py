"""Gate `python`: a function of this repository scores the completion. It is trusted code and runs in the stage's own process.

Its code is part of the card: the compiler writes the digest of the function's module, and of all project modules that it imports,
into `code`, so a changed function is a changed card, and a card of other code is never scored.
"""

from __future__ import annotations

import ast
import copy
import importlib
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from stages.contracts.artifact import Frozen, digest
from stages.contracts.code_tree import CodeTree
from stages.contracts.files import file_digest, read_text
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
        file, name = _file(function), function.partition(":")[2]
        if file is None or not name.isidentifier():
            raise ValueError(f"{function!r} is not module:function, or the project has no such module: a file below its root")
        if digest_now(function) is None:
            raise ValueError(f"the module of {function!r}, or a project module that it imports, is no Python")
        body = ast.parse(read_text(file)).body
        if not any(isinstance(node, ast.FunctionDef) and node.name == name for node in body):
            raise ValueError(f"the module of {function!r} defines no function {name!r}")
        return function

    @model_validator(mode="before")
    @classmethod
    def _with_code(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("code") is None and isinstance(given.get("function"), str):
            return {**given, "code": digest_now(given["function"])}
        return given


def digest_now(function: str) -> str | None:
    """Digest of the files of the module of `module:function` and of the project's modules that it imports; None when one is no Python. A
    comment counts too: only the author of a user's own code could say that a change means nothing."""
    try:
        files = sorted(CodeTree(Path.cwd(), package="").files(function.partition(":")[0])) if _file(function) else []
        return digest("".join(f"{file}\0{file_digest(Path(file))}\n" for file in files))[:16] if files else None
    except (SyntaxError, ValueError, OSError, ImportError, RecursionError, MemoryError):  # the last two: nested without end
        return None


def _file(function: str) -> Path | None:
    """The file of the module of `module:function`; None when the project has none."""
    parts = function.partition(":")[0].split(".")
    path = Path.cwd().joinpath(*parts)
    files = [path.with_suffix(".py"), path / "__init__.py"] if all(part.isidentifier() and part.isascii() for part in parts) else []
    return next((file for file in files if file.is_file()), None)


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """`function(text, row)` gives a score 0..1, a truth value, or None for unknown. What it raises is unknown, for that answer."""
    if settings.code is None or digest_now(settings.function) != settings.code:
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


def _load(function: str) -> Callable[[str, dict[str, Any]], Any]:
    """Import the function. Raises ValueError when an installed package of the same name hides the project's module."""
    name, _, attribute = function.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    module, file = importlib.import_module(name), _file(function)
    if file is None or Path(module.__file__ or "").resolve() != file.resolve():
        raise ValueError(f"another module {name!r} is loaded, from {module.__file__}")
    return getattr(module, attribute)  # type: ignore[no-any-return]
