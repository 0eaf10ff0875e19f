"""The answer inside a completion: what gates judge where a reward says how answers are marked. People ask models for a fenced block, a
tag or a box, and everything around it is explanation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from stages.contracts.artifact import Section
from stages.contracts.names import refused
from stages.contracts.patterns import Pattern, last_match

_OPENS = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}(?=[^`]*$)|~{3,})")
_CLOSES = re.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*$")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_BOX = "\\boxed{"


class AnswerRule(Section):
    """Where the answer stands in a completion. Of several, the last counts: models correct themselves."""

    source: Literal["fence", "tag", "boxed", "regex", "last_line"] = Field(
        alias="from",
        description="fence: a Markdown code block; one that is not closed reaches to the end. tag: `<answer>...</answer>`. boxed: "
        "LaTeX `\\boxed{...}`. regex: what `pattern` matches. last_line: the last line that is not blank.",
    )
    tag: str | None = Field(
        None, min_length=1, max_length=40, pattern=r"^[A-Za-z][\w-]*$", description="Of `from: tag`: its name; not given: `answer`."
    )
    pattern: Pattern | None = Field(
        None,
        min_length=1,
        description="Of `from: regex`: a regular expression (syntax of the `regex` library); its first group is the answer, or all of it.",
    )

    @model_validator(mode="after")
    def _fits(self) -> AnswerRule:
        for key, source in (("tag", "tag"), ("pattern", "regex")):
            if getattr(self, key) is not None and self.source != source:
                raise refused("E230", key=key, source=source, written=self.source)
        if self.source == "regex" and self.pattern is None:
            raise refused("E230.pattern")
        return self

    def marked(self, text: str) -> str:
        """A completion that is this answer and nothing else; the text itself where only a pattern says how answers look."""
        tag = self.tag or "answer"
        forms = {"fence": f"```\n{text}\n```", "tag": f"<{tag}>{text}</{tag}>", "boxed": f"{_BOX}{text}}}"}
        return forms.get(self.source, text)


@dataclass(frozen=True)
class Taken:
    """`text`: the answer, or None when there is none, for a `reason`. `unknown`: whether there is one could not be decided."""

    text: str | None
    reason: str = ""
    unknown: bool = False


def take(rule: AnswerRule, completion: str) -> Taken:
    """The last answer of a completion. Never raises."""
    if rule.source == "regex":
        return _by_pattern(rule.pattern or "", completion)
    if rule.source == "fence":
        return _taken(_last_fence(completion), "no fenced block")
    if rule.source == "tag":
        tag = rule.tag or "answer"
        before, closed, _ = completion.rpartition(f"</{tag}>")
        _, opened, text = before.rpartition(f"<{tag}>")
        return _taken(text.strip() if closed and opened else None, f"no <{tag}>...</{tag}>")
    if rule.source == "boxed":
        return _taken(_last_box(completion), f"no {_BOX}...}}")
    return _taken(next((line.strip() for line in reversed(completion.splitlines()) if line.strip()), None), "no line with text")


def _taken(text: str | None, absent: str) -> Taken:
    return Taken(text, absent if text is None else "")


def _by_pattern(pattern: str, completion: str) -> Taken:
    try:
        match = last_match(pattern, completion)
    except TimeoutError as error:
        return Taken(None, f"{error} to find the answer", unknown=True)
    text = None if match is None else match[1] if match.re.groups else match[0]
    return _taken(text.strip() if text is not None else None, "the answer's pattern does not match")


def _last_fence(completion: str) -> str | None:
    """The inside of the last code block, without the fence's own indentation. Fences are those of Markdown: a closing one is as long as
    the opening one and of the same letter."""
    block: list[str] | None = None
    fence, indent = "", 0
    for line in completion.splitlines():
        if fence:
            closing = _CLOSES.match(line)
            if closing and closing["fence"].startswith(fence):
                fence = ""
            elif block is not None:
                block.append(line[min(indent, len(line) - len(line.lstrip())) :])
        elif opening := _OPENS.match(line):
            fence, indent, block = opening["fence"], len(opening["indent"]), []
    return None if block is None else "\n".join(block)


def _last_box(completion: str) -> str | None:
    """The inside of the last closed box; braces inside are counted, `\\{` is no brace."""
    end = len(completion)
    while (start := completion.rfind(_BOX, 0, end)) >= 0:
        depth = 1
        for mark in _BRACES.finditer(completion, start + len(_BOX)):
            depth += (mark[0] == "{") - (mark[0] == "}")
            if not depth:
                return completion[start + len(_BOX) : mark.start()].strip()
        end = start
    return None
