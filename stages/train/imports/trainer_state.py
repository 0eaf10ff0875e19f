"""Format `trainer_state`: the `trainer_state.json` that transformers' Trainer saves, bare NaN and Infinity included."""

from __future__ import annotations

from pathlib import Path

from stages.train.imports.cells import NoNumber, whole
from stages.train.imports.content import content
from stages.train.imports.json_text import loads
from stages.train.imports.log import Log, Unreadable, by_column

STEP = "step"


def read(path: Path, index: str = STEP) -> Log:
    """Rows of `log_history`; `global_step` is what the trainer itself says of its last step. Raises Unreadable."""
    data = content(path)
    try:
        state = loads(data)
    except ValueError as error:
        lines = "; one object a line is the format `jsonl`" if data.startswith(b"{") and b"}\n{" in data else ""
        raise Unreadable(f"{path} is not JSON: {error}{lines}") from None
    rows = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable(f"{path} has no `log_history` of rows, so it is no trainer_state.json")
    log = by_column(rows, index)
    try:
        log.steps_done = whole(state.get("global_step"))
    except NoNumber as text:
        log.notes.append(f"`global_step` is no number of steps: {text}")
    planned = state.get("max_steps")
    log.planned = planned if isinstance(planned, int) and planned > 0 else None
    if "train_loss" in log.columns:
        del log.columns["train_loss"]
        log.notes.append("`train_loss` is left out: it sums only the steps since the last resume")
    return log
