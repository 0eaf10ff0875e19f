"""Repositories of the Hugging Face hub, by the commit that a card pins: from the local cache, or fetched when the machine is online.

HF_HOME, HF_HUB_OFFLINE, HF_ENDPOINT and HF_TOKEN apply. What has been fetched once is never asked for again: a commit does not change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stages.contracts.diagnostic import StageError
from stages.contracts.model import DatasetRef, ModelRef


def require_model(card: ModelRef) -> None:
    """Raise StageError S275 when the machine is offline and the cache does not hold the pinned commit of a model."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.constants import is_offline_mode

    if is_offline_mode() and not isinstance(try_to_load_from_cache(card.path, "config.json", revision=card.revision), str):
        raise _missing(card.path, card.revision, "model", "/model/base")


def not_had(card: ModelRef, error: Exception) -> StageError:
    """S275: the hub model could not be fetched, or transformers cannot read it."""
    return _missing(card.path, card.revision, "model", "/model/base", _one_line(error))


def dataset_rows(data: DatasetRef, pointer: str) -> list[dict[str, Any]]:
    """Rows of a split, in the dataset's order, as JSON values, each with its text `id` and the prompt's text.

    Raises StageError S275 when the dataset cannot be had, S276 when it has no such split, configuration or column, or a row that
    cannot be used. No code of the dataset's is run: `datasets` reads files only.
    """
    import datasets

    folder = _dataset(data.name, data.revision or "", pointer)
    datasets.disable_progress_bars()
    try:
        stream = datasets.load_dataset(str(folder), name=data.config, split=data.split, streaming="[" not in (data.split or ""))
    except Exception as error:  # each reader of a format raises its own kind for what it cannot read
        inside = f" of `{data.config}`" if data.config else ""
        raise _unfit(data, f"has no split `{data.split}`{inside}: {_one_line(error)}", pointer) from None
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    try:
        for number, row in enumerate(stream, start=1):
            rows.append(_row(data, dict(row), number, seen, pointer))
            if data.rows is not None and number == data.rows:
                break
    except StageError:
        raise
    except Exception as error:
        raise _unfit(data, f"cannot be read to its end: {_one_line(error)}", pointer) from None
    if not rows or (data.rows is not None and len(rows) < data.rows):
        raise _unfit(data, f"has {len(rows)} rows in `{data.split}`, fewer than {data.rows or 1}", pointer)
    return rows


def _row(data: DatasetRef, row: dict[str, Any], number: int, seen: set[str], pointer: str) -> dict[str, Any]:
    if not isinstance(row.get(data.prompt), str):
        texts = ", ".join(f"`{key}`" for key, value in row.items() if isinstance(value, str)) or "none"
        raise _unfit(
            data, f"has no text `{data.prompt}` in row {number} of `{data.split}`; columns with text: {texts}", f"{pointer}/prompt"
        )
    if data.id is not None and row.get(data.id) is None:
        raise _unfit(data, f"has no `{data.id}` in row {number} of `{data.split}`; columns: {', '.join(row)}", f"{pointer}/id")
    name = str(row[data.id]) if data.id is not None else f"{data.split}-{number}"
    if name in seen:
        raise _unfit(data, f"repeats the id {name[:80]!r} in row {number} of `{data.split}`", f"{pointer}/id")
    seen.add(name)
    plain: dict[str, Any] = json.loads(json.dumps(row, default=str))  # as a row of a file: gates and their sandboxes take JSON only
    return {**plain, "id": name}


def _dataset(name: str, revision: str, pointer: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, repo_type="dataset", revision=revision))
    except Exception as error:  # the transport's own kinds differ between versions of the client
        raise _missing(name, revision, "dataset", pointer, _one_line(error)) from None


def _missing(name: str, revision: str, kind: str, pointer: str, reason: str = "offline") -> StageError:
    flag = " --repo-type dataset" if kind == "dataset" else ""
    return StageError(
        "S275",
        f"the {kind} {name} at {revision[:12]} is not in the hub cache of this machine, and cannot be had: {reason}",
        why="the card pins this commit, and no other one may stand in for it",
        fix=f"HF_HUB_OFFLINE=0 hf download {name}{flag} --revision {revision}",
        pointer=pointer,
    )


def _unfit(data: DatasetRef, what: str, pointer: str) -> StageError:
    return StageError(
        "S276",
        f"the dataset {data.name} {what}",
        why="rows of a hub dataset are read when a stage runs, and each needs its prompt and a unique id",
        fix=f"look at its columns and splits on the hub, and set `split`, `config`, `prompt`, `id` and `rows` of `{data.name}` in the spec",
        pointer=pointer,
    )


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (text[:200] + "..." if len(text) > 200 else text) or type(error).__name__
