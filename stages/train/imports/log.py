"""A log as a table: what each reader makes of a file, and what is odd about the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

WANDB_STEP = "train/global_step"
"""Where transformers logs the step to W&B, whose own `_step` counts calls."""
EVENT_STEP = "step of the event"
"""Where TensorBoard's events have their step: no name that the log itself has."""


class Unreadable(Exception):
    """A log that cannot be used. The message is one plain sentence that names the place in the log."""


@dataclass
class Log:
    """A whole log."""

    table: pd.DataFrame
    """One row a row of the log, in its order, from 0; one column a name. A cell is a number (inf is what was logged and is not finite),
    a text, None (logged as "does not apply") or NaN (not logged)."""
    index: str
    """Column of the step or the epoch."""
    steps_done: int | None = None
    """The last step, as the trainer itself says; None when the log merely ends."""
    planned: int | None = None
    """How many steps the trainer was told to make; None when the log does not say."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Numbers and switches of the run's config; empty when the log has none."""
    failed: str = ""
    """What the source says of a run that did not end well, such as `exit code 1`."""
    running: str = ""
    """What the source says of a run that may go on, such as `W&B said running`."""
    no_numbers: set[str] = field(default_factory=set)
    """Names in the log that are no series of numbers, such as histograms."""
    at_once: dict[str, str] = field(default_factory=dict)
    """Column -> why it is more than one series: two files hold it at the same time."""
    starts: set[int] = field(default_factory=set)
    """Rows at which a file begins, of logs of several files: a program began anew there."""
    cut: str = ""
    """Where the file breaks off; everything before was read."""
    notes: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """Names that the log has."""
        return [name for name in self.table.columns if name != EVENT_STEP]

    def logged(self, column: str) -> pd.Series[Any]:
        """Cells of a column in the rows that hold it; empty for a column that the log lacks."""
        if column not in self.table:
            return pd.Series(dtype=object)
        cells = self.table[column]
        return cells[[not isinstance(cell, float) or cell == cell for cell in cells]]


def from_rows(rows: Iterable[Mapping[str, Any]], index: str) -> Log:
    """A log of rows such as JSON objects. Logged NaN must be inf already, since NaN stands for "not logged"."""
    return Log(pd.DataFrame(list(rows), dtype=object), index)


def flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Cells of a row whose values may be maps: `{"train": {"loss": 1}}` has the column `train.loss`. A list is no number: a text in its
    column says so."""
    for name, cell in row.items():
        if isinstance(cell, dict):
            yield from flat(cell, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", f"a list of {len(cell)}" if isinstance(cell, list) else cell
