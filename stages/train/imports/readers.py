"""A card -> its log: which reader a format has."""

from __future__ import annotations

from pathlib import Path

from stages.contracts.import_card import ReadCard
from stages.train.imports import csv_table, jsonl, tensorboard, text_lines, trainer_state, wandb_file, wandb_snapshot
from stages.train.imports.log import Log, Unreadable


def read_log(path: Path, read: ReadCard) -> Log:
    """Read a log of any format but `summary`. Raises Unreadable, also for one without a row, or OSError for a file that cannot be read."""
    log = _log(path, read)
    if not log.columns:
        raise Unreadable(f"{path} holds no row" + (f" ({log.cut})" if log.cut else ""))
    return log


def _log(path: Path, read: ReadCard) -> Log:
    index = read.epoch or read.step
    if read.format == "text":
        return text_lines.read(path, read.pattern or "", index or "step")
    reader = {
        "trainer_state": trainer_state.read,
        "wandb": wandb_snapshot.read,
        "wandb_file": wandb_file.read,
        "tensorboard": tensorboard.read,
        "jsonl": jsonl.read,
        "csv": csv_table.read,
    }[read.format]
    return reader(path, index) if index else reader(path)
