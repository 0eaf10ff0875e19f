"""Gate `length`: how long the completion is, within bounds or by a formula of its words and characters."""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from pydantic import Field, model_validator

from stages.contracts.artifact import Frozen, later
from stages.contracts.plugin import Answer, Judgement

NAMES = ("words", "chars")
MOST_CHARS = 200
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FOREIGN = re.compile(r"[^A-Za-z0-9_.\s+\-*/(),]|,\s*\)", re.ASCII)
_SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}
Formula = Callable[[Mapping[str, float]], float]
"""Counts by name -> the number. Raises ZeroDivisionError; may be infinite or NaN where floats overflow."""


class Settings(Frozen):
    """Bounds, or a formula with the range of its values."""

    min_words: int | None = Field(None, ge=0, description="Fewest words: runs of anything but white space.")
    max_words: int | None = Field(None, ge=0, description="Most words.")
    min_chars: int | None = Field(None, ge=0, description="Fewest characters, white space included.")
    max_chars: int | None = Field(None, ge=0, description="Most characters, white space included.")
    min_tokens: int | None = later(None, ge=0, description="Fewest tokens of the model, end of text included.")
    max_tokens: int | None = later(None, ge=0, description="Most tokens of the model, end of text included.")
    formula: str | None = Field(
        None, min_length=1, description="Arithmetic over `words` and `chars`, such as `2 - words/16`; instead of bounds."
    )
    low: float | None = Field(
        None, allow_inf_nan=False, description="Value of the formula that scores 0; required with a formula. Lower values score 0 too."
    )
    high: float | None = Field(
        None, allow_inf_nan=False, description="Value of the formula that scores 1; required with a formula. Higher values score 1 too."
    )

    @model_validator(mode="after")
    def _one_form(self) -> Settings:
        has_bounds = any(bound is not None for _, *bounds in self.bounds() for bound in bounds)
        if has_bounds == (self.formula is not None):
            raise ValueError("give bounds (min_words, max_words, min_chars, max_chars, min_tokens, max_tokens) or a formula, and not both")
        for unit, least, most in self.bounds():
            if least is not None and most is not None and least > most:
                raise ValueError(f"min_{unit} is {least}, above max_{unit}, which is {most}: no completion passes")
        if self.formula is not None:
            parse_formula(self.formula)
            if self.low is None or self.high is None or not self.low < self.high:
                raise ValueError("a formula needs low and high, the values that score 0 and 1, with low below high")
        elif self.low is not None or self.high is not None:
            raise ValueError("low and high belong to a formula")
        return self

    def bounds(self) -> tuple[tuple[str, int | None, int | None], ...]:
        """(unit, fewest, most) of each count."""
        return (
            ("words", self.min_words, self.max_words),
            ("chars", self.min_chars, self.max_chars),
            ("tokens", self.min_tokens, self.max_tokens),
        )


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Bounds: pass (1.0) within, else fail (0.0). Formula: the score is its value on the way from low to high; passes above 0.

    Bounds of tokens do not know a text that no model wrote and whose tokens are not known.
    """
    return [_judge(settings, answer.text, answer.tokens) for answer in answers]


def _judge(settings: Settings, text: str, tokens: int | None) -> Judgement:
    words, chars = len(text.split()), len(text)
    if settings.formula is not None:
        return _by_formula(settings, words, chars)
    for (unit, least, most), count in zip(settings.bounds(), (words, chars, tokens), strict=True):
        unit = "characters" if unit == "chars" else unit
        if count is None and (least, most) != (None, None):
            return Judgement("unknown", None, "the number of tokens is not known: an example says it with `tokens`")
        if count is not None and least is not None and count < least:
            return Judgement("fail", 0.0, f"{count} {unit}, fewer than {least}")
        if count is not None and most is not None and count > most:
            return Judgement("fail", 0.0, f"{count} {unit}, more than {most}")
    return Judgement("pass", 1.0)


def _by_formula(settings: Settings, words: int, chars: int) -> Judgement:
    assert settings.formula is not None and settings.low is not None and settings.high is not None
    counts = f"{words} words, {chars} characters"
    try:
        value = parse_formula(settings.formula)({"words": words, "chars": chars})
    except ZeroDivisionError:
        return Judgement("fail", 0.0, f"{counts}: the formula divides by zero")
    if math.isnan(value):
        return Judgement("fail", 0.0, f"{counts}: the formula has no value")
    score = min(1.0, max(0.0, (value - settings.low) / (settings.high - settings.low)))
    return Judgement("pass" if score > 0 else "fail", score, f"{counts}: the formula gives {value:g}")


@functools.cache
def parse_formula(text: str) -> Formula:
    """Numbers, `words`, `chars`, + - * /, brackets, min and max. Parsed by `ast`, and never run as Python. Raises ValueError, with the
    column, for anything else."""
    if len(text) > MOST_CHARS:
        raise ValueError(f"the formula has {len(text)} characters, more than {MOST_CHARS}")
    if foreign := _FOREIGN.search(text):
        raise ValueError(f"column {foreign.start() + 1}: {foreign[0]!r} is no part of a formula")
    source = re.sub(r"\s", " ", text).strip()
    try:
        return _formula(ast.parse(source, mode="eval").body, source)
    except SyntaxError as error:
        raise ValueError(f"column {error.offset or 1}: {error.msg}") from None


def _formula(node: ast.expr, source: str) -> Formula:
    part = ast.get_source_segment(source, node) or ""
    match node:
        case ast.Constant() if _NUMBER.fullmatch(part):
            number = float(part)
            return lambda counts: number
        case ast.Name(id=name) if name in NAMES:
            return lambda counts: float(counts[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _formula(operand, source)
            return lambda counts: -inner(counts)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            before, after, combine = _formula(left, source), _formula(right, source), _SIGNS[type(sign)]
            return lambda counts: float(combine(before(counts), after(counts)))
        case ast.Call(func=ast.Name(id=name), args=[_, *_], keywords=[]) if name in _FUNCTIONS:
            arguments = [_formula(argument, source) for argument in node.args]
            return lambda counts: _FUNCTIONS[name](argument(counts) for argument in arguments)
        case _:
            known = ", ".join([*NAMES, *_FUNCTIONS])
            raise ValueError(f"column {node.col_offset + 1}: {part!r} is no part of a formula, which has numbers, + - * / and {known}")
