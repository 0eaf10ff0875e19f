"""Format `summary`: one JSON file with the summaries of many runs, final values and no series. A run is found by what it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stages.train.imports.content import content as contents
from stages.train.imports.json_text import loads
from stages.train.imports.log import Unreadable


def read(path: Path, where: Mapping[str, str | int]) -> dict[str, Any]:
    """The one object of the file, at any depth, that holds all of `where`. Raises Unreadable when none or several do."""
    try:
        content = loads(contents(path))
    except ValueError as error:
        raise Unreadable(f"{path} is not JSON: {error}") from None
    found = [one for one in _objects(content) if all(key in one and _is(one[key], value) for key, value in where.items())]
    asked = json.dumps(dict(where), ensure_ascii=False)
    if not found:
        raise Unreadable(f"no object of {path} holds {asked}")
    if len(found) > 1:
        raise Unreadable(f"{len(found)} objects of {path} hold {asked}, so which one is the run is open")
    return found[0]


def _is(found: Any, wanted: str | int) -> bool:
    """A seed may be written as a number or as a text."""
    return bool(found == wanted) or (isinstance(found, str) and found == str(wanted))


def _objects(content: Any) -> Iterator[dict[str, Any]]:
    waiting = [content]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
