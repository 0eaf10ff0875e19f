"""JSON as other programs write it: fast where it is strict, and with bare NaN and Infinity where it is not."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import orjson

_END = re.compile(rb"[ \t]*,?[ \t]*\r?\n")
"""What may follow a value at the end of a line. A JSON string holds no line break, so what a line ends with is outside of strings."""


_MANY = 1_000


def loads(text: bytes) -> Any:
    """The value of a JSON text; a bare NaN or Infinity may come as text of that name (`cells.number` takes both). Raises ValueError.

    orjson is several times faster than Python's reader and refuses bare NaN. In indented files these stand at the end of a line,
    where they can be quoted safely; anything else is left to Python's reader.
    """
    quoted = _quoted(text, b"NaN")
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(quoted)
    with suppress(orjson.JSONDecodeError):  # Infinity is rare: looking for it in every log would cost more
        return orjson.loads(_quoted(quoted, b"Infinity").replace(b'-"Infinity"', b'"-Infinity"'))
    return _python(text)


def _quoted(text: bytes, word: bytes) -> bytes:
    """The word in quotes wherever it ends a line. A single letter is found fifty times faster than a word, while it is rare; where the
    word is not, the rest is replaced in one go, as far as it stands right before the end of a line."""
    view = memoryview(text)
    parts: list[bytes | memoryview] = []
    begun, others, at = 0, 0, text.find(word[:1])
    while at >= 0:
        end = at + len(word)
        if not text.startswith(word, at):
            end = at + 1
            others += 1
        elif len(parts) > 10 * _MANY:
            rest = text[begun:]
            for ends in (b",\n", b"\n", *((b",\r\n", b"\r\n") if b"\r" in rest else ())):
                rest = rest.replace(word + ends, b'"' + word + b'"' + ends)
            return b"".join([*parts, rest])
        elif _END.match(text, end):
            parts += [view[begun:at], b'"', word, b'"']
            begun = end
        at = text.find(word if others > _MANY else word[:1], end)
    return b"".join([*parts, view[begun:]]) if parts else text


def _python(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
