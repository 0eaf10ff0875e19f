"""Canonical JSON, as `stages.contracts.artifact` defines it and byte for byte equal to it, several times faster.

Python 3.11's json has no C encoder for indented text, and a thousand cards are written at once.
"""

from __future__ import annotations

import math
from json.encoder import encode_basestring
from typing import Any

from stages.contracts.artifact import Artifact


def text(artifact: Artifact) -> str:
    """Canonical text of an artifact, schema included."""
    return encoded({"schema": artifact.SCHEMA, **artifact.model_dump(mode="json")}) + "\n"


def encoded(value: Any, indent: str = "") -> str:
    """A JSON value without the last newline; `indent` is that of the line it begins on. Raises ValueError on NaN and Infinity."""
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        if not value:
            return "{}"
        inner = indent + "  "
        body = f",\n{inner}".join([f"{encode_basestring(key)}: {encoded(value[key], inner)}" for key in sorted(value)])
        return f"{{\n{inner}{body}\n{indent}}}"
    if isinstance(value, list | tuple):
        if not value:
            return "[]"
        inner = indent + "  "
        body = f",\n{inner}".join([encoded(item, inner) for item in value])
        return f"[\n{inner}{body}\n{indent}]"
    if value is None or value is True or value is False:
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no place in strict JSON")
        return float.__repr__(value)
    return int.__repr__(value)
