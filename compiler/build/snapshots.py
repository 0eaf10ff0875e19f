"""Snapshots of W&B runs: what each says of itself in its first line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from stages.contracts.artifact import file_digest
from stages.contracts.import_card import RUNNING, SNAPSHOT

_MOST = 1 << 20
"""Bytes of a first line: numbers of a config and a summary."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot on disk."""

    rows: int
    state: str
    digest: str
    name: str = ""
    """`entity/project/id`."""

    @property
    def running(self) -> bool:
        return self.state in RUNNING


def snapshot_of(path: str) -> Snapshot | None:
    """The snapshot at a path; None when none is there."""
    try:
        with open(path, "rb") as stream:
            head = json.loads(stream.read(_MOST).partition(b"\n")[0])
        if head["schema"] != SNAPSHOT:
            return None
        name = "/".join(str(head.get(key)) for key in ("entity", "project", "id"))
        return Snapshot(int(head["rows"]), str(head["state"]), file_digest(Path(path)), name)
    except (OSError, ValueError, KeyError, TypeError):
        return None
