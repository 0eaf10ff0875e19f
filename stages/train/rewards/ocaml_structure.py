"""Gate `ocaml_structure`: enough lines of code, the parts that must be there, and an end marker that ends the answer.

Comments, blank lines and the insides of texts are no code, so prose does not count as lines, however it is wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field, model_validator

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement

MARKS = ("end_marker", "enough_lines")
_COMMENTS_AND_TEXTS = r"""
    (?P<opens>\(\*) | (?P<closes>\*\))
    | (?P<text>"(?:[^"\\]|\\(?:.|\Z))*(?:"|\Z) | \{(?:%%?[\w.]+\s*)?(?P<tag>[a-z_]*)\|.*?(?:\|(?P=tag)\}|\Z))
    | '(?:[^'\\\n]|\\(?:[\\"'ntbr\ ]|\d{3}|x[0-9a-fA-F]{2}|o[0-3][0-7]{2}))'"""
_IN_COMMENT = re.compile(_COMMENTS_AND_TEXTS + "|.", re.DOTALL | re.VERBOSE)
_IN_CODE = re.compile(_COMMENTS_AND_TEXTS + r"|[A-Za-z_][\w']*|.", re.DOTALL | re.VERBOSE)


class Settings(Frozen):
    """What an answer must have."""

    end_marker: str | None = Field("(* END *)", min_length=1, description="Text that must end the answer, white space aside; null: none.")
    min_code_lines: int = Field(1, ge=0, description="Fewest lines with code: a letter or digit outside comments and texts.")
    required: tuple[str, ...] = Field((), description="Parts that must each appear in the code, outside comments and texts.")

    @model_validator(mode="after")
    def _some_rule(self) -> Settings:
        if self.end_marker is None and not self.min_code_lines and not self.required:
            raise ValueError("no rule is given, so every completion would pass")
        if "" in self.required:
            raise ValueError("a required part is empty")
        return self


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Pass (1.0) when everything is there, else fail (0.0)."""
    return [_judge(settings, answer.text) for answer in answers]


def _judge(settings: Settings, text: str) -> Judgement:
    ended = settings.end_marker is not None and text.rstrip().endswith(settings.end_marker.rstrip())
    bare = code(text)
    lines = sum(1 for line in bare.split("\n") if any(letter.isalnum() for letter in line))
    marks = {"end_marker": ended, "enough_lines": lines >= settings.min_code_lines}
    if settings.end_marker is not None and not ended:
        where = "is not at the end" if settings.end_marker in text else "is missing"
        return Judgement("fail", 0.0, f"the end marker {where}", marks)
    if lines < settings.min_code_lines:
        return Judgement("fail", 0.0, f"{lines} lines of code, fewer than {settings.min_code_lines}", marks)
    for part in settings.required:
        if part not in bare:
            return Judgement("fail", 0.0, f"the part {part!r} is missing", marks)
    return Judgement("pass", 1.0, marks=marks)


def code(text: str) -> str:
    """The text with comments and the insides of texts blanked out; lines stay. An unclosed comment or text reaches to the end."""
    kept: list[str] = []
    place, depth = 0, 0
    while match := (_IN_COMMENT if depth else _IN_CODE).match(text, place):
        is_code = not depth and match.lastgroup not in ("opens", "text")
        kept.append(match[0] if is_code else re.sub(r"[^\n]", " ", match[0]))
        depth = max(0, depth + (match.lastgroup == "opens") - (match.lastgroup == "closes"))
        place = match.end()
    return "".join(kept)
