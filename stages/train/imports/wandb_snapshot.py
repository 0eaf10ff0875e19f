"""Format `wandb`: a snapshot of one run of a W&B project, as wandb_api.py writes it.

The first line says which run it is, how it ended and how far its history goes; then one line a row of history, all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stages.train.imports import jsonl
from stages.train.imports.json_text import loads
from stages.train.imports.log import Log, Unreadable
from stages.train.imports.wandb_file import STEP

SNAPSHOT = "octavo.wandb_snapshot/1"
ENDED_BADLY = ("crashed", "failed", "killed")


def read(path: Path, index: str = STEP) -> Log:
    """Raises Unreadable for a file that is none, or that holds fewer rows than it says."""
    first = path.open("rb").readline()
    try:
        head: Any = loads(first)
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("schema") != SNAPSHOT:
        raise Unreadable(f"{path} is no snapshot of a W&B run; stages.train.imports.wandb_api writes them, from a full scan of the history")
    log = jsonl.read(path, index)
    for name in ("schema", "entity", "project", "id", "state", "rows", "last_history_step"):
        log.columns.pop(name, None)
    if len(log.index) - 1 != head["rows"]:
        raise Unreadable(f"{path} says {head['rows']} rows and holds {len(log.index) - 1}: it was cut or edited")
    if head["state"] in ENDED_BADLY:
        log.failed = f"W&B says `{head['state']}`"
    return log
