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
_QUOTED = re.compile(r"\{(?:%%?[\w.]+\s*)?([a-z_]*)\|")
_LETTER = re.compile(r"'(?:[^'\\\n]|\\(?:[\\\"'ntbr ]|\d{3}|x[0-9a-fA-F]{2}|o[0-3][0-7]{2}))'")
_TEXT = re.compile(r'"(?:[^"\\]|\\(?:.|\Z))*("|\Z)', re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w']*")


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
    while place < len(text):
        end, shown = _lexeme(text, place, depth)
        if text.startswith("(*", place):
            depth, end, shown = depth + 1, place + 2, False
        elif depth and text.startswith("*)", place):
            depth, end, shown = depth - 1, place + 2, False
        piece = text[place:end]
        kept.append(piece if shown and not depth else re.sub(r"[^\n]", " ", piece))
        place = end
    return "".join(kept)


def _lexeme(text: str, place: int, depth: int) -> tuple[int, bool]:
    """(end of the piece that starts here, whether it is code)."""
    letter = text[place]
    if letter == '"' and (match := _TEXT.match(text, place)):
        return match.end(), False
    if letter == "{" and (match := _QUOTED.match(text, place)):
        close = text.find(f"|{match[1]}}}", match.end())
        return (len(text) if close < 0 else close + len(match[1]) + 2), False
    if letter == "'" and (match := _LETTER.match(text, place)):
        return match.end(), True
    if not depth and (match := _NAME.match(text, place)):
        return match.end(), True
    return place + 1, True
