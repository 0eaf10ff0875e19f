"""Gate `python`: a function of this repository scores the completion. It is trusted code and runs in the stage's own process.

Its code is part of the card: the compiler writes the digest of the function's module, and of all project modules that it imports,
into `code`, so a changed function is a changed card, and a card of other code is never scored.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from stages.contracts.artifact import Frozen, digest, later
from stages.contracts.code_tree import CodeTree
from stages.contracts.files import file_digest, read_text
from stages.contracts.plugin import Answer, Judgement


class Settings(Frozen):
    """Which function, and from which score on it passes."""

    function: str = Field(
        description="A function in a file of the project: `rewards.tone.score` for `score` in rewards/tone.py. "
        "`rewards.tone:score` and `rewards/tone.py:score` mean the same and need quotes inside { }."
    )
    passes_from: float = Field(1.0, ge=0, le=1, description="Lowest score that passes; true and false count as 1 and 0.")
    low: float = later(0.0, description="Score of the function that counts as 0.")
    high: float = later(1.0, description="Score of the function that counts as 1; scores between the two are scaled to 0..1.")
    chat: bool = later(
        False, description="For a TRL function that reads chat messages: each completion is `[{role, content}]`, not a text."
    )
    code: str | None = Field(None, description="Written by octavo: hash of the function's code, which must not change under a card.")

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, function: str) -> str:
        file, name = _file(function), function.partition(":")[2]
        if file is None or not name.isidentifier():
            raise ValueError(f"{function!r} names no file below the project's root; `rewards.tone.score` is `score` in rewards/tone.py")
        if digest_now(function) is None:
            raise ValueError(f"the module of {function!r}, or a project module that it imports, is no Python")
        definitions = [node for node in ast.parse(read_text(file)).body if isinstance(node, ast.FunctionDef) and node.name == name]
        if not definitions:
            raise ValueError(f"the module of {function!r} defines no function {name!r}")
        if not _can_be_called(definitions[-1].args):
            raise ValueError(f"{function!r} must take `(text, row)`, or `completions` and columns of the data as TRL's reward functions do")
        return function

    @model_validator(mode="after")
    def _has_a_range(self) -> Settings:
        if not -1e12 <= self.low < self.high <= 1e12:
            raise ValueError(f"`low` must be below `high`, and is {self.low:g} beside {self.high:g}")
        return self

    @model_validator(mode="before")
    @classmethod
    def _with_code(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("function"), str):
            function = _with_module(given["function"])
            return {**given, "function": function, "code": given.get("code") or digest_now(function)}
        return given


def _with_module(function: str) -> str:
    """`rewards.tone.score` and `rewards/tone.py:score` as `rewards.tone:score`."""
    path, colon, name = function.partition(":")
    module = path.removesuffix(".py").replace("/", ".") if path.endswith(".py") else path
    return f"{module}:{name}" if colon else ":".join(module.rsplit(".", 1))


def digest_now(function: str) -> str | None:
    """Digest of the files of the module of `module:function` and of the project's modules that it imports; None when one is no Python. A
    comment counts too: only the author of a user's own code could say that a change means nothing."""
    try:
        files = sorted(CodeTree(Path.cwd(), package="").files(function.partition(":")[0])) if _file(function) else []
        return digest("".join(f"{file}\0{file_digest(Path(file))}\n" for file in files))[:16] if files else None
    except (SyntaxError, ValueError, OSError, ImportError, RecursionError, MemoryError):  # the last two: nested without end
        return None


def _can_be_called(arguments: ast.arguments) -> bool:
    """Whether a function takes `(text, row)` by place, or `completions` by name and nothing by place only."""
    by_place = [*arguments.posonlyargs, *arguments.args]
    if "completions" in {argument.arg for argument in [*by_place, *arguments.kwonlyargs]}:
        return not arguments.posonlyargs
    needed = len(by_place) - len(arguments.defaults)
    has_more = any(default is None for default in arguments.kw_defaults)  # without a default
    return needed <= 2 and not has_more and (len(by_place) >= 2 or arguments.vararg is not None)


def _file(function: str) -> Path | None:
    """The file of the module of `module:function`; None when the project has none."""
    parts = function.partition(":")[0].split(".")
    path = Path.cwd().joinpath(*parts)
    files = [path.with_suffix(".py"), path / "__init__.py"] if all(part.isidentifier() and part.isascii() for part in parts) else []
    return next((file for file in files if file.is_file()), None)


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """`function(text, row)` gives a score, a truth value, or None for unknown; what it raises is unknown, for that answer.

    A function with a parameter `completions` is called once, as TRL calls reward functions: `completions`, `prompts` where rows have a
    column `prompt`, and each further column as a list, by name; it gives a list of scores. What it raises is unknown for all of them.
    Source: https://huggingface.co/docs/trl/main/en/rewards and "Using a custom reward function" of GRPOTrainer's page.
    """
    if settings.code is None or digest_now(settings.function) != settings.code:
        return [_unknown(f"the code of {settings.function} is not what the card was compiled for: run octavo compile")] * len(answers)
    function = _load(settings.function)
    parameters = inspect.signature(function).parameters
    try:
        if "completions" not in parameters:
            return [_judge(settings, function, answer) for answer in answers]
        columns = _columns(settings, answers)
        if not any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
            columns = {name: column for name, column in columns.items() if name in parameters}
        scores = list(function(**columns))
    except (Exception, SystemExit) as error:
        return [_unknown(f"{settings.function} raised {type(error).__name__}: {error}", broken=True)] * len(answers)
    if len(scores) != len(answers):
        return [_unknown(f"{settings.function} gave {len(scores)} scores for {len(answers)} completions", broken=True)] * len(answers)
    return [_judgement(settings, score) for score in scores]


def _columns(settings: Settings, answers: Sequence[Answer]) -> dict[str, list[Any]]:
    """Arguments of a TRL function: a list for each column of the rows, which have no value where a row lacks it."""
    rows = [copy.deepcopy(dict(answer.row)) for answer in answers]
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    if "prompt" in columns:
        columns["prompts"] = columns.pop("prompt")
    texts: list[Any] = [answer.text for answer in answers]
    if settings.chat:
        texts = [[{"role": "assistant", "content": text}] for text in texts]
        prompts = columns.get("prompts", [])
        columns["prompts"] = [[{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt for prompt in prompts]
    return {**columns, "completions": texts}


def _judge(settings: Settings, function: Callable[..., Any], answer: Answer) -> Judgement:
    try:
        score = function(answer.text, copy.deepcopy(dict(answer.row)))
    except (Exception, SystemExit) as error:
        return _unknown(f"{settings.function} raised {type(error).__name__}: {error}", broken=True)
    return _judgement(settings, score)


def _judgement(settings: Settings, score: Any) -> Judgement:
    if score is None:
        return _unknown(f"{settings.function} does not know")
    if not isinstance(score, int | float) or not math.isfinite(score) or not settings.low <= score <= settings.high:
        no_score = f"{settings.function} gave {str(score)[:80]!r}, which is no score from {settings.low:g} to {settings.high:g}"
        return _unknown(no_score, broken=True)
    scaled = (score - settings.low) / (settings.high - settings.low)
    return Judgement("pass" if scaled >= settings.passes_from else "fail", scaled)


def _unknown(reason: str, broken: bool = False) -> Judgement:
    return Judgement("unknown", None, reason.encode("utf-8", "backslashreplace").decode()[:300], broken=broken)


def _load(function: str) -> Callable[..., Any]:
    """Import the function. Raises ValueError when an installed package of the same name hides the project's module."""
    name, _, attribute = function.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    module, file = importlib.import_module(name), _file(function)
    if file is None or Path(module.__file__ or "").resolve() != file.resolve():
        raise ValueError(f"another module {name!r} is loaded, from {module.__file__}")
    return getattr(module, attribute)  # type: ignore[no-any-return]
