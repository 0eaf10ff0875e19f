"""`<experiment>/replays.jsonl`: steps of runs that were trained again and compared with what is stored, one line a replay. Append-only."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stages.contracts.artifact import ArtifactError, Frozen, Time
from stages.contracts.files import parse_json, read_text


class Replay(Frozen):
    """What `octavo replay` saw."""

    run: str
    card_id: str
    """Card of the stored run and of the replay."""
    at: Time
    steps: int
    target_steps: int
    outcome: Literal["equal", "rounding", "different"]
    """rounding: the same completions, and no value differs by more than ROUNDING of itself."""
    step: int | None = None
    """The first that differs."""
    metric: str | None = None
    """The first of that step that differs, or `completions`."""
    largest: float | None = None
    """Of all logged values: the largest difference, as a share of the larger one."""
    commit: str | None
    """Git commit of the working tree that trained again, `+` appended when it had changes."""
    host: str
    devices: tuple[str, ...]
    versions: dict[str, str]

    @property
    def says(self) -> str:
        """`equal`, `equal within rounding from step 3 on (at most 2.1e-07 of a value)`, `different from step 3 on, first in reward`."""
        if self.outcome == "equal":
            return "equal"
        if self.outcome == "rounding":
            return f"equal within rounding from step {self.step} on (at most {self.largest:.2g} of a value)"
        return f"different from step {self.step} on, first in {self.metric}"


ROUNDING = 1e-3
"""Largest relative difference that passes for rounding: other GPUs and libraries add in another order, and bfloat16 keeps three digits."""


def read_replays(path: Path) -> tuple[Replay, ...]:
    """All lines; () when there is no file. Raises ArtifactError for one that is broken."""
    if not path.exists():
        return ()
    try:
        return tuple(Replay.model_validate(parse_json(line)) for line in read_text(path).split("\n") if line.strip())
    except (OSError, ValueError) as error:
        why = "`octavo replay` appends whole lines; do not edit them"
        raise ArtifactError(path, f"not a ledger of replays: {str(error)[:200]}", why=why, fix=f"git log -p {path}") from None
