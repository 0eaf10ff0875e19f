"""Markdown to HTML in a process of its own: `python -I markdown.py < text`, in bounded time and memory, which the kernel keeps.

Each `{{ ... }}` outside of code is written as it is between OPEN and CLOSE. Raw HTML is text. The HTML is untrusted: see clean.py.
"""

from __future__ import annotations

import re
import resource
import sys

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline

OPEN, CLOSE = "\ue000", "\ue001"
SECONDS, MEGABYTES, MOST = 2, 200, 1_000_000
"""Of processor time, of memory, and bytes of the text and of its HTML."""
_REFERENCE = re.compile(r"\{\{.{0,200}?\}\}", re.DOTALL)


def convert(text: str) -> str:
    """HTML of CommonMark with tables; headings two levels down, so that those of the page stay above them."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.inline.ruler.before("escape", "reference", _reference)
    parser.core.ruler.push("tame", _tame)
    return str(parser.render(text.replace(OPEN, "").replace(CLOSE, "")))


def _reference(state: StateInline, silent: bool) -> bool:
    match = _REFERENCE.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push("text", "", 0).content = OPEN + match[0] + CLOSE
    state.pos = match.end()
    return True


def _tame(state: StateCore) -> None:
    for token in state.tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        if alignment := str(token.attrs.pop("style", "")):  # of a cell
            token.attrs["align"] = alignment.removeprefix("text-align:")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))
    text = sys.stdin.buffer.read(MOST + 1)
    if len(text) > MOST or len(html := convert(text.decode()).encode()) > MOST:
        sys.exit(1)
    sys.stdout.buffer.write(html)
