"""Which reader a format has."""

from __future__ import annotations

from pathlib import Path

from stages.contracts.import_card import ReadCard
from stages.train.imports.csv_text import read_csv
from stages.train.imports.json_logs import read_jsonl, read_snapshot, read_trainer_state
from stages.train.imports.log import Log, Unreadable
from stages.train.imports.tensorboard import read_tensorboard
from stages.train.imports.text_lines import read_text
from stages.train.imports.wandb_file import read_wandb_file

_READERS = {
    "trainer_state": read_trainer_state,
    "wandb": read_snapshot,
    "wandb_file": read_wandb_file,
    "tensorboard": read_tensorboard,
    "jsonl": read_jsonl,
    "csv": read_csv,
}


def read_log(path: Path, read: ReadCard) -> Log:
    """Read a log of any format but `summary`. Raises Unreadable, also for one without a row, or OSError for a file that cannot be read."""
    index = read.epoch or read.step
    if read.format == "text":
        log = read_text(path, read.pattern or "", index or "step")
    else:
        log = _READERS[read.format](path, index) if index else _READERS[read.format](path)
    if log.table.empty:
        raise Unreadable(f"{path} holds no row" + (f" ({log.cut})" if log.cut else ""))
    return log
