"""Gate `length`: how long the completion is, within bounds or by a formula of its words and characters."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from pydantic import Field, model_validator

from stages.contracts.artifact import Frozen, later
from stages.contracts.plugin import Answer, Judgement
from stages.train.rewards.formula import Formula, parsed

NAMES = ("words", "chars")


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
        bounds = (self.min_words, self.max_words, self.min_chars, self.max_chars, self.min_tokens, self.max_tokens)
        bounded = any(bound is not None for bound in bounds)
        if bounded == (self.formula is not None):
            raise ValueError("give bounds (min_words, max_words, min_chars, max_chars, min_tokens, max_tokens) or a formula, and not both")
        for least, most, unit in (
            (self.min_words, self.max_words, "words"),
            (self.min_chars, self.max_chars, "chars"),
            (self.min_tokens, self.max_tokens, "tokens"),
        ):
            if least is not None and most is not None and least > most:
                raise ValueError(f"min_{unit} is {least}, above max_{unit}, which is {most}: no completion passes")
        if self.formula is None:
            if self.low is not None or self.high is not None:
                raise ValueError("low and high belong to a formula")
            return self
        parsed(self.formula, NAMES)
        if self.low is None or self.high is None or not self.low < self.high:
            raise ValueError("a formula needs low and high, the values that score 0 and 1, with low below high")
        return self


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Bounds: pass (1.0) within, else fail (0.0). Formula: the score is its value on the way from low to high; passes above 0.

    Bounds of tokens do not know a text that no model wrote and whose tokens are not known.
    """
    return [_judge(settings, answer.text, answer.tokens) for answer in answers]


def _judge(settings: Settings, text: str, tokens: int | None) -> Judgement:
    words, chars = len(text.split()), len(text)
    if settings.formula is not None:
        return _by_formula(settings, _formula(settings.formula), words, chars)
    if tokens is None and (settings.min_tokens, settings.max_tokens) != (None, None):
        return Judgement("unknown", None, "the number of tokens is not known: an example says it with `tokens`")
    for count, least, most, unit in (
        (words, settings.min_words, settings.max_words, "words"),
        (chars, settings.min_chars, settings.max_chars, "characters"),
        (tokens or 0, settings.min_tokens, settings.max_tokens, "tokens"),
    ):
        if least is not None and count < least:
            return Judgement("fail", 0.0, f"{count} {unit}, fewer than {least}")
        if most is not None and count > most:
            return Judgement("fail", 0.0, f"{count} {unit}, more than {most}")
    return Judgement("pass", 1.0)


@functools.cache
def _formula(text: str) -> Formula:
    return parsed(text, NAMES)


def _by_formula(settings: Settings, formula: Formula, words: int, chars: int) -> Judgement:
    assert settings.low is not None and settings.high is not None
    counts = f"{words} words, {chars} characters"
    try:
        value = formula.value({"words": words, "chars": chars})
    except ZeroDivisionError:
        return Judgement("fail", 0.0, f"{counts}: the formula divides by zero")
    if math.isnan(value):
        return Judgement("fail", 0.0, f"{counts}: the formula has no value")
    score = min(1.0, max(0.0, (value - settings.low) / (settings.high - settings.low)))
    return Judgement("pass" if score > 0 else "fail", score, f"{counts}: the formula gives {value:g}")
