"""Data files that specs name: JSONL, one object a row, each with its id."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from compiler.problems import Fault, problem
from stages.contracts.artifact import digest


@dataclass(frozen=True, eq=False)
class DataFile:
    """A JSONL file. `rows` maps id to row, in file order."""

    path: str
    sha256: str
    rows: dict[str, dict[str, Any]]

    def prompts(self, key: str, count: int | None) -> list[str]:
        """Prompts of the first `count` rows."""
        return [text for row in islice(self.rows.values(), count) if isinstance(text := row.get(key), str)]

    def prompt_tokens(self, key: str, count: int | None) -> tuple[int, int]:
        """Bounds on the tokens of the longest of the first `count` prompts, for tokenizers that split at white space and
        make at most one token of a byte."""
        return _prompt_tokens(self, key, count)


@functools.cache
def _prompt_tokens(data: DataFile, key: str, count: int | None) -> tuple[int, int]:
    prompts = data.prompts(key, count)
    return max((len(text.split()) for text in prompts), default=0), max((len(text.encode()) for text in prompts), default=0)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_ROW = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def data_file(path: str) -> DataFile:
    """Read a file. Raises Fault for one that is missing, holds no rows, or has a row without an id of its own."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        folder = Path(path).parent.as_posix()
        raise Fault(problem("E313", path=path, reason=error.strerror or error, folder=folder)) from None
    rows: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = _ROW.decode(line.decode("utf-8-sig"))
            if b"\\u" in line:
                json.dumps(row, ensure_ascii=False).encode()  # half of a surrogate pair is no character
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise Fault(problem("E313.row", line=number, path=path))
        name = row.get("id")
        if not isinstance(name, str) or not name:
            raise Fault(problem("E313.id", line=number, path=path))
        if name in rows:
            raise Fault(problem("E313.twice", line=number, path=path, id=name[:80]))
        rows[name] = row
    if not rows:
        raise Fault(problem("E313.empty", path=path))
    return DataFile(path, digest(content), rows)
