"""Prompt sets: JSONL files, one object a row with a unique text `id`; or rows of a hub dataset in the same form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stages.contracts.artifact import file_digest
from stages.contracts.diagnostic import StageError
from stages.contracts.model import DatasetRef

Row = dict[str, Any]


def read_rows(data: DatasetRef, pointer: str) -> list[Row]:
    """Rows of a data card, checked against its hash. `pointer` is the card's place in the stage's card, for messages.

    Raises StageError S201 when the file is missing or differs from what was compiled, S202 when a row is broken, S275 and S276 for
    hub datasets.
    """
    if data.hub is not None:
        from stages.train.hub import dataset_rows

        return dataset_rows(data, pointer)
    path = Path(data.name)
    if not path.exists():
        raise StageError(
            "S201", f"{path} is missing", why="the card trains or evaluates on this file", fix=f"git checkout {path}", pointer=pointer
        )
    digest = file_digest(path)
    if digest != data.sha256:
        raise StageError(
            "S201",
            f"{path} has changed since the card was compiled (sha256 {digest[:12]}, card {(data.sha256 or 'none')[:12]})",
            why="the card must name the data that made the result",
            fix="octavo compile && dvc repro",
            pointer=pointer,
        )
    rows: list[Row] = []
    seen: set[str] = set()
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            rows.append(_row(line, data.prompt, f"{path}:{number}", seen, pointer))
            if data.rows is not None and len(rows) == data.rows:
                break
    return rows


def _row(line: str, prompt: str, place: str, seen: set[str], pointer: str) -> Row:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise StageError(
            "S202", f"{place}: not JSON: {error}", why="every line is one JSON object", fix=f"edit {place}", pointer=pointer
        ) from None
    if not isinstance(row, dict) or not isinstance(row.get("id"), str) or not isinstance(row.get(prompt), str):
        raise StageError(
            "S202",
            f"{place}: no text under `id` and `{prompt}`",
            why="completions are joined to rows by id",
            fix=f"edit {place}",
            pointer=pointer,
        )
    if row["id"] in seen:
        raise StageError(
            "S202", f"{place}: second row with id {row['id']!r}", why="ids must be unique", fix=f"edit {place}", pointer=pointer
        )
    seen.add(row["id"])
    return row
