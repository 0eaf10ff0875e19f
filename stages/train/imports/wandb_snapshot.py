"""Format `wandb`: a snapshot of one run of a W&B project, as wandb_api.py writes it.

The first line says which run it is, how it ended and how far its history goes; then one line a row of history, all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.contracts.wandb_snapshot import ENDED_BADLY, RUNNING, SNAPSHOT
from stages.train.imports import jsonl
from stages.train.imports.json_text import loads
from stages.train.imports.log import WANDB_STEP, Log, Unreadable

FEW = 5
_PARTS: dict[str, Any] = {"config": {}, "summary": {}, "left_out": []}
"""What the first line has besides, in snapshots that are not older."""


def read(path: Path, index: str = WANDB_STEP) -> Log:
    """Raises Unreadable for a file that is none, or that holds fewer rows than it says."""
    if path.is_dir():
        raise Unreadable(f"{path} is a folder, and a snapshot is a file")
    with path.open("rb") as stream:
        first = stream.readline()
    try:
        head: Any = loads(first)
    except ValueError:
        head = None
    if (
        not isinstance(head, dict)
        or head.get("schema") != SNAPSHOT
        or not all(isinstance(head.get(k, d), type(d)) for k, d in _PARTS.items())
    ):
        raise Unreadable(f"{path} is no snapshot of a W&B run; octavo compile --update makes them, from a full scan of the history")
    log = jsonl.read(path, index, first=2)
    if len(log.index) != head.get("rows"):
        raise Unreadable(f"{path} says {head.get('rows')!r} rows and holds {len(log.index)}: it was cut or edited")
    state = head.get("state")
    if state in ENDED_BADLY:
        log.failed = f"W&B says `{state}`"
    elif state in RUNNING:
        log.running = f"W&B said `{state}` when the snapshot was made"
    log.settings = head.get("config", {})
    planned = log.settings.get("max_steps")
    log.planned = planned if isinstance(planned, int) and planned > 0 else None
    log.notes += _notes(head, log)
    return log


def _notes(head: dict[str, Any], log: Log) -> Iterator[str]:
    """What the first line tells beyond the rows. Snapshots that were made before it told so have none of it."""
    if log.running:
        yield f"{log.running}: octavo compile --update fetches it again when it has ended"
    left_out = [str(name) for name in head.get("left_out", [])]
    log.no_numbers.update(left_out)
    if left_out:
        few = ", ".join(left_out[:FEW]) + (", ..." if len(left_out) > FEW else "")
        yield f"columns of W&B that hold no numbers are not in the snapshot: {few}"
    summary = head.get("summary", {})
    for name in (WANDB_STEP, "_step"):
        said, column = summary.get(name), log.columns.get(name)
        reached = max((cell for cell in column.cells if type(cell) is int), default=None) if column else None
        if type(said) is int and reached is not None and said > reached:
            yield f"W&B's summary says `{name}` {said}, and the history ends at {reached}"
