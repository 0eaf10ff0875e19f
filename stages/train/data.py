"""Prompt sets: JSONL files, one object a row with a unique text `id`; or rows of a hub dataset in the same form.

Repositories of the Hugging Face hub are read by the commit that a card pins: from the local cache, or fetched when the machine is online.
HF_HOME, HF_HUB_OFFLINE, HF_ENDPOINT and HF_TOKEN apply. What has been fetched once is never asked for again: a commit does not change.
"""

from __future__ import annotations

import json
import textwrap
from itertools import islice
from pathlib import Path
from typing import Any

from stages.contracts.diagnostic import StageError
from stages.contracts.files import BLANK, file_digest, parse_json, read_lines
from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.prompt import Unfit, messages
from stages.train.refusals import refusal

Row = dict[str, Any]


def read_rows(data: DatasetRef) -> list[Row]:
    """Rows of a data card, checked against its hash. Raises StageError S201 when the file is missing or differs from what was compiled,
    S202 when a row is broken, S275 and S276 for hub datasets."""
    if data.hub is not None:
        return _hub_rows(data)
    path = Path(data.name)
    if not path.exists():
        raise refusal("S201.missing", path=path)
    digest = file_digest(path)
    if digest != data.sha256:
        raise refusal("S201.changed", path=path, now=digest[:12], card=(data.sha256 or "none")[:12])
    rows: dict[str, Row] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip(BLANK):
            continue
        row = _row(line, data, f"{path}:{number}")
        if row["id"] in rows:
            raise refusal("S202.twice", place=f"{path}:{number}", id=repr(row["id"]))
        rows[row["id"]] = row
        if len(rows) == data.rows:
            break
    return list(rows.values())


def _row(line: bytes, data: DatasetRef, place: str) -> Row:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise refusal("S202.json", place=place, error=error) from None
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise refusal("S202.text", place=place)
    try:
        messages(row, data.prompt, data.layout)
    except Unfit as error:
        raise refusal("S202.prompt", place=place, why=error) from None
    return row


def require_model(card: ModelRef) -> None:
    """Raise StageError S275 when the machine is offline and the cache does not hold the pinned commit of a model."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.constants import is_offline_mode

    if is_offline_mode() and not isinstance(try_to_load_from_cache(card.path, "config.json", revision=card.revision), str):
        raise missing("model", card.path, card.revision)


def missing(kind: str, name: str, revision: str, error: Exception | None = None) -> StageError:
    """S275: the `model` or `dataset` could not be fetched, or cannot be read."""
    command = f"{name}{' --repo-type dataset' if kind == 'dataset' else ''} --revision {revision}"
    return refusal("S275", kind=kind, name=name, revision=revision[:12], reason=_words(error) if error else "offline", command=command)


def _hub_rows(data: DatasetRef) -> list[dict[str, Any]]:
    """Rows of a split, in the dataset's order, as JSON values, each with its text `id` and the prompt's text. No code of the dataset's
    is run: `datasets` reads files only.

    Raises StageError S275 when the dataset cannot be had, S276 when it has no such split, configuration or column, or a row that
    cannot be used."""
    import datasets
    from huggingface_hub import snapshot_download

    revision = data.revision or ""
    try:
        folder = Path(snapshot_download(data.name, repo_type="dataset", revision=revision))
    except Exception as error:  # the transport's own kinds differ between versions of the client
        raise missing("dataset", data.name, revision, error) from None
    datasets.disable_progress_bars()
    try:
        stream = datasets.load_dataset(str(folder), name=data.config, split=data.split, streaming="[" not in (data.split or ""))
        # as rows of a file: gates, templates and sandboxes take JSON only
        raw = [parse_json(json.dumps(dict(row), default=str)) for row in islice(stream, data.rows)]
    except Exception as error:  # each reader of a format raises its own kind for what it cannot read
        inside = f" of `{data.config}`" if data.config else ""
        raise _unfit(data, f"has no split `{data.split}`{inside} that can be read: {_words(error)}") from None
    rows: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(raw, start=1):
        place = f"in row {number} of `{data.split}`"
        try:
            messages(row, data.prompt, data.layout)
        except Unfit as error:
            texts = ", ".join(f"`{key}`" for key, value in row.items() if isinstance(value, str)) or "none"
            raise _unfit(data, f"{error} {place}; columns with text: {texts}") from None
        if data.id is not None and row.get(data.id) is None:
            raise _unfit(data, f"has no `{data.id}` {place}; columns: {', '.join(row)}")
        name = str(row[data.id]) if data.id is not None else f"{data.split}-{number}"
        if name in rows:
            raise _unfit(data, f"repeats the id {name[:80]!r} {place}")
        rows[name] = {**row, "id": name}
    if len(rows) < (data.rows or 1):
        raise _unfit(data, f"has {len(rows)} rows in `{data.split}`, fewer than {data.rows or 1}")
    return list(rows.values())


def _unfit(data: DatasetRef, what: str) -> StageError:
    return refusal("S276", name=data.name, what=what)


def _words(error: Exception) -> str:
    return textwrap.shorten(str(error), 200, placeholder="...") or type(error).__name__
