"""Prompt sets: JSONL files, one object a row with a unique text `id`; or rows of a hub dataset in the same form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stages.contracts.artifact import file_digest
from stages.contracts.diagnostic import StageError
from stages.contracts.model import DatasetRef

Row = dict[str, Any]


def read_rows(data: DatasetRef) -> list[Row]:
    """Rows of a data card, checked against its hash. Raises StageError S201 when the file is missing or differs from what was compiled,
    S202 when a row is broken, S275 and S276 for hub datasets."""
    if data.hub is not None:
        from stages.train.hub import dataset_rows

        return dataset_rows(data)
    path = Path(data.name)
    if not path.exists():
        raise StageError("S201", f"{path} is missing", why="the card trains or evaluates on this file", fix=f"git checkout {path}")
    digest = file_digest(path)
    if digest != data.sha256:
        what = f"{path} has changed since the card was compiled (sha256 {digest[:12]}, card {(data.sha256 or 'none')[:12]})"
        raise StageError("S201", what, why="the card must name the data that made the result", fix="octavo compile && dvc repro")
    rows: dict[str, Row] = {}
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            row = _row(line, data.prompt, f"{path}:{number}")
            if row["id"] in rows:
                raise _broken(f"{path}:{number}", f"second row with id {row['id']!r}", "ids must be unique")
            rows[row["id"]] = row
            if len(rows) == data.rows:
                break
    return list(rows.values())


def _row(line: str, prompt: str, place: str) -> Row:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise _broken(place, f"not JSON: {error}", "every line is one JSON object") from None
    if not isinstance(row, dict) or not isinstance(row.get("id"), str) or not isinstance(row.get(prompt), str):
        raise _broken(place, f"no text under `id` and `{prompt}`", "completions are joined to rows by id")
    return row


def _broken(place: str, what: str, why: str) -> StageError:
    return StageError("S202", f"{place}: {what}", why=why, fix=f"edit {place}")
