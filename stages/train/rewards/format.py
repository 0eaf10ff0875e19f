"""Gate `format`: the completion looks as asked. A pattern for all of it, parts it must or must not hold, bounds on its length."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from stages.contracts.artifact import Frozen, later
from stages.contracts.patterns import Pattern, is_match
from stages.contracts.plugin import Answer, Judgement


class Settings(Frozen):
    """At least one rule; all rules must hold."""

    pattern: Pattern | None = Field(
        None, description="Regular expression (syntax of the `regex` library) that must match the whole completion, white space included."
    )
    required: tuple[str, ...] = Field((), description="Parts that must each appear somewhere in the completion.")
    forbidden: tuple[str, ...] = later((), description="Parts that must not appear anywhere in the completion.")
    min_chars: int | None = Field(None, ge=0, description="Fewest characters.")
    max_chars: int | None = Field(None, ge=0, description="Most characters.")

    @model_validator(mode="after")
    def _rules(self) -> Settings:
        if self.pattern is None and not self.required and not self.forbidden and self.min_chars is None and self.max_chars is None:
            raise ValueError("a format gate needs at least one of pattern, required, forbidden, min_chars, max_chars")
        if self.min_chars is not None and self.max_chars is not None and self.min_chars > self.max_chars:
            raise ValueError(f"min_chars {self.min_chars} is above max_chars {self.max_chars}: no completion can pass")
        return self


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass (1.0) when every rule holds, else fail (0.0) naming the first that does not; unknown when matching takes too long."""
    return [_judge(settings, answer.text) for answer in answers]


def _judge(settings: Settings, text: str) -> Judgement:
    if settings.min_chars is not None and len(text) < settings.min_chars:
        return Judgement("fail", 0.0, f"{len(text)} characters, fewer than {settings.min_chars}")
    if settings.max_chars is not None and len(text) > settings.max_chars:
        return Judgement("fail", 0.0, f"{len(text)} characters, more than {settings.max_chars}")
    for part in settings.required:
        if part not in text:
            return Judgement("fail", 0.0, f"the part {part!r} is missing")
    for part in settings.forbidden:
        if part in text:
            return Judgement("fail", 0.0, f"holds the part {part!r}")
    if settings.pattern is not None:
        try:
            if not is_match(settings.pattern, text):
                return Judgement("fail", 0.0, "does not match the pattern")
        except TimeoutError as error:
            return Judgement("unknown", None, str(error))
    return Judgement("pass", 1.0)
