"""JSON as other programs write it: fast where it is strict, and with bare NaN and Infinity where it is not.

orjson is several times faster than Python's reader and refuses NaN, Infinity and -Infinity, which Python writes. They are put in quotes
without looking at where strings begin and end, and what comes of it is right or is refused: inside of a string, the quote before the
word ends the string, and what follows is then a bare word, which orjson refuses. Only a backslash right before that quote would make
another text of it; JSON knows no such escape, so such a text is left to Python's reader. (A bare word in place of a key, which nothing
writes, may be taken for a key of that name.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson

_WORDS = (b"NaN", b"Infinity", b"-Infinity")
_NAN = re.compile(rb"NaN")
_MANY = 200
_BEGINNING = 100_000
_OFTEN = 600


def loads(text: bytes) -> Any:
    """The value of a JSON text; a bare NaN or Infinity may come as text of that name (`cells.number` takes both). Raises ValueError."""
    for strict in _strict(text):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(strict)
    try:
        return json.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise ValueError("nested too deep") from None


def _strict(text: bytes) -> Iterator[bytes]:
    """The text itself, without such words; with each in quotes; with those in quotes that follow `: `, for texts whose strings hold such
    words; with each in quotes that stood in none. Each is made when the one before it was refused."""
    words = [word for word in (b"NaN", b"Infinity") if _holds(text, word)]
    if not words:
        yield text
        return
    escaped = b"\\" in text and any(b"\\" + word in text for word in _WORDS)
    every = text if escaped else _each(text, words)
    if not escaped:
        yield every
    values = text
    for word in words:
        values = values.replace(b": " + word, b': "' + word + b'"')
    yield values.replace(b": -Infinity", b': "-Infinity"') if b"Infinity" in words else values
    if not escaped:
        for word in _WORDS:
            every = every.replace(b'""' + word + b'""', b'"' + word + b'"')
        yield every


def _each(text: bytes, words: list[bytes]) -> bytes:
    """The text with all such words in quotes."""
    if b"NaN" in words:
        often = text.count(b"NaN", 0, _BEGINNING) > _OFTEN  # a search for single ones is faster, and pieces are slower to join
        text = text.replace(b"NaN", b'"NaN"') if often else _NAN.sub(b'"NaN"', text)
    if b"Infinity" in words:
        text = text.replace(b"Infinity", b'"Infinity"').replace(b'-"Infinity"', b'"-Infinity"')
    return text


def _holds(text: bytes, word: bytes) -> bool:
    """Whether a word is there. Its first letter is found fifty times faster, while that is rare."""
    at = text.find(word[:1])
    for _ in range(_MANY):
        if at < 0 or text.startswith(word, at):
            return at >= 0
        at = text.find(word[:1], at + 1)
    return text.find(word, at) >= 0
