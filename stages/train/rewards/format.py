"""Gate `format`: the completion looks as asked. A pattern for all of it, parts it must or must not hold, bounds on its length."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Sequence

from pydantic import Field, field_validator, model_validator

from stages.contracts.artifact import Frozen, later
from stages.contracts.plugin import Answer, Judgement

PATTERN_SECONDS = 1.0
"""Wall seconds that one completion's match may take. Python's `re` cannot be stopped; the `regex` library can."""


PATTERN_CHARS = 10_000
_COMPILE = """
import resource, sys
for limit, most in ((resource.RLIMIT_AS, 256 << 20), (resource.RLIMIT_CPU, 1), (resource.RLIMIT_CORE, 0)):
    resource.setrlimit(limit, (most, most))
import regex
try:
    regex.compile(sys.stdin.read())
except (regex.error, RecursionError):
    pass
"""


@functools.cache
def _is_small(pattern: str) -> bool:
    """Whether a pattern compiles in 256 MB and a second: `regex` writes out what is repeated, so a few letters may fill any memory."""
    if not re.search(r"\{\s*[0-9]", pattern):
        return True
    command = [sys.executable, "-I", "-c", _COMPILE]
    return subprocess.run(command, input=pattern.encode("utf-8", "replace"), capture_output=True, check=False).returncode == 0


class Settings(Frozen):
    """At least one rule; all rules must hold."""

    pattern: str | None = Field(
        None, description="Regular expression (syntax of the `regex` library) that must match the whole completion, white space included."
    )
    required: tuple[str, ...] = Field((), description="Parts that must each appear somewhere in the completion.")
    forbidden: tuple[str, ...] = later((), description="Parts that must not appear anywhere in the completion.")
    min_chars: int | None = Field(None, ge=0, description="Fewest characters.")
    max_chars: int | None = Field(None, ge=0, description="Most characters.")

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            import regex

            try:
                if len(pattern) > PATTERN_CHARS or not _is_small(pattern):
                    raise ValueError("a pattern that takes too much memory or time: write fewer and smaller repeats")
                regex.compile(pattern)
            except RecursionError:
                raise ValueError("not a regular expression: its groups are nested too deep") from None
            except regex.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return pattern

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
        import regex

        try:
            if regex.fullmatch(settings.pattern, text, timeout=PATTERN_SECONDS) is None:
                return Judgement("fail", 0.0, "does not match the pattern")
        except TimeoutError:
            return Judgement("unknown", None, f"the pattern took more than {PATTERN_SECONDS:g} s")
    return Judgement("pass", 1.0)
