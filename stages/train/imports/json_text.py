"""JSON as other programs write it: fast where it is strict, and with bare NaN and Infinity where it is not."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

_NAN, _INFINITY = (re.compile(word + rb"(?=[ \t]*,?[ \t]*\r?\n)") for word in (b"NaN", b"Infinity"))
"""At the end of a line. A JSON string holds no line break, so what a line ends with is outside of strings."""


def loads(text: bytes) -> Any:
    """The value of a JSON text; a bare NaN or Infinity may come as text of that name (`cells.number` takes both). Raises ValueError.

    orjson is several times faster than Python's reader and refuses bare NaN. In indented files these stand at the end of a line,
    where they can be quoted safely; anything else is left to Python's reader.
    """
    quoted = _NAN.sub(b'"NaN"', text) if b"NaN" in text else text
    if b"Infinity" in text:
        quoted = _INFINITY.sub(b'"Infinity"', quoted).replace(b'-"Infinity"', b'"-Infinity"')
    try:
        return orjson.loads(quoted)
    except orjson.JSONDecodeError:
        return _python(text)


def _python(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
