"""What the model reads for a row of data: its prompt as messages, or as one text where the model has no chat template.

Values of a row are put into the template as they are. Nothing in a template or a row is run.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from stages.contracts.artifact import Section, later
from stages.contracts.names import refused

ROLES = ("system", "user", "assistant", "tool")
_PARTS = re.compile(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")
Message = dict[str, str]
"""`role` and `content`."""


class Unfit(ValueError):
    """A row that does not give a prompt; the message continues `the row ...`."""


def columns(template: str) -> tuple[str, ...]:
    """Columns that a template names, in order."""
    return tuple(dict.fromkeys(part[1] for part in _PARTS.finditer(template) if part[1] is not None))


def _template(text: str) -> str:
    lone = next((part for part in _PARTS.finditer(text) if part[0] in ("{", "}") or part[1] == ""), None)
    if lone is not None:
        raise refused("E233", column=lone.start() + 1, brace=lone[0])
    if not columns(text):
        raise refused("E233.none")
    return text


Template = Annotated[str, AfterValidator(_template)]


class PromptExample(Section):
    """A solved example that the model reads before the prompt."""

    row: dict[str, Any] = Field(description="What the template's columns hold; without a template `prompt`.")
    answer: str = Field(min_length=1, description="The answer, as the model should write it.")


class PromptFormat(Section):
    """What the model reads for a row. Training, preflight and evaluation do alike."""

    system: str | None = Field(
        None, min_length=1, description="System text, for models with a chat template; for others write it into `template`."
    )
    template: Template | None = Field(
        None,
        description="The prompt with `{column}` for values of the row; `{{` and `}}` are braces. Not given: what `data.train.prompt` says.",
    )
    examples: tuple[PromptExample, ...] = Field(
        (), max_length=100, description="Solved examples before the prompt: turns of the chat, or text where there is no chat template."
    )
    stop: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        (), max_length=20, description="Texts that end a completion, which then is not truncated; the completion is cut before them."
    )
    keep_stop: bool = later(False, description="Cut a completion behind the text of `stop` that ended it: gates then see that text.")

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


def messages(row: Mapping[str, Any], prompt: str, layout: PromptFormat | None = None) -> list[Message]:
    """The row as a chat: system text, examples, and its own messages. `prompt`: the column of the prompt's text, or of its messages.
    Raises Unfit."""
    layout = layout or PromptFormat()
    own = _own(row, prompt, layout.template)
    turns: list[Message] = []
    if layout.system is not None and own[0]["role"] != "system":
        turns.append({"role": "system", "content": layout.system})
    elif own[0]["role"] == "system":
        turns.append(own.pop(0))
    for example in layout.examples:
        turns += _own(example.row, "prompt", layout.template)
        turns.append({"role": "assistant", "content": example.answer})
    return [*turns, *own]


def plain_text(row: Mapping[str, Any], prompt: str, layout: PromptFormat | None = None) -> str:
    """The row as one text, for a model without a chat template: each example ends with its answer and an empty line. Raises Unfit."""
    if isinstance(row.get(prompt), list) and (layout is None or layout.template is None):
        raise Unfit(f"has chat messages under `{prompt}`, which need `model: {{apply_chat_template: true}}`")
    turns = messages(row, prompt, layout)
    return "".join(turn["content"] + ("\n\n" if turn["role"] == "assistant" else "") for turn in turns)


def shown_text(row: Mapping[str, Any], prompt: str, layout: PromptFormat | None, chat: bool) -> str:
    """What people read of a prompt: the text itself, or each message of a chat under its role. Raises Unfit."""
    if not chat:
        return plain_text(row, prompt, layout)
    turns = messages(row, prompt, layout)
    return turns[0]["content"] if len(turns) == 1 else "\n\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)


def _own(row: Mapping[str, Any], prompt: str, template: str | None) -> list[Message]:
    if template is not None:
        return [{"role": "user", "content": _filled(template, row)}]
    value = row.get(prompt)
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value:
        raise Unfit(f"has no text `{prompt}`")
    turns: list[Message] = []
    for number, turn in enumerate(value, start=1):
        role, content = (turn.get("role"), turn.get("content")) if isinstance(turn, Mapping) else (None, None)
        if role not in ROLES or not isinstance(content, str):
            raise Unfit(f"has under `{prompt}` a message, number {number}, without a role ({', '.join(ROLES)}) or a text `content`")
        turns.append({"role": role, "content": content})
    if turns[-1]["role"] == "assistant":
        raise Unfit(f"ends under `{prompt}` with the assistant's own message; answers have a column of their own")
    return turns


def _filled(template: str, row: Mapping[str, Any]) -> str:
    def value(part: re.Match[str]) -> str:
        if part[1] is None:
            return part[0][0]
        if row.get(part[1]) is None:
            near = difflib.get_close_matches(part[1], [name for name in row if name != part[1]], n=1)
            raise Unfit(f"has no `{part[1]}`, which the template names" + (f" (did you mean `{near[0]}`?)" if near else ""))
        value = row[part[1]]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _PARTS.sub(value, template)
