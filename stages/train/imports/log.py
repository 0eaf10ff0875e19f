"""What a reader makes of a log: its steps and columns as they were written, and what is odd about the file.

A cell is a number (NaN and Infinity among them), None (logged as "does not apply") or text. A column holds only the rows in which
it was logged: nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from dataclasses import dataclass, field
from typing import Any

WANDB_STEP = "train/global_step"
"""Where transformers logs the step to W&B, whose own `_step` counts calls."""


class Unreadable(Exception):
    """A log that cannot be used. The message is one plain sentence that names the place in the log."""


@dataclass
class Column:
    """One name of the log: numbers of rows (from 0, in the log's order) and the cell of each."""

    rows: list[int] = field(default_factory=list)
    cells: MutableSequence[Any] = field(default_factory=list)
    """A list, or an array of numbers, from which Python's own numbers are made only where a spec maps the column."""


@dataclass
class Log:
    """A whole log. `index[i]` is the step, or the epoch, of row i; None where the row has none."""

    index: list[Any]
    columns: dict[str, Column]
    steps_done: int | None = None
    """What the trainer itself says of its last step; None when the log merely ends."""
    planned: int | None = None
    """How many steps the trainer was told to make; None when the log does not say."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Numbers and switches of the run's config; empty when the log has none."""
    failed: str = ""
    """What the source says of a run that did not end well, such as `exit code 1`."""
    running: str = ""
    """What the source says of a run that may go on, such as `W&B said running`."""
    no_numbers: set[str] = field(default_factory=set)
    """Names of what the log has and that is no series of numbers, such as histograms."""
    at_once: dict[str, str] = field(default_factory=dict)
    """Column -> why it is no one series: two files hold it at the same time."""
    starts: set[int] = field(default_factory=set)
    """Rows at which a file begins, of logs of several: there a program began anew."""
    cut: str = ""
    """Where the file breaks off; everything before was read."""
    notes: list[str] = field(default_factory=list)


_BLOCK = 200
"""So many rows of cells stay in the processor's cache; more are slower to turn."""


def by_column(rows: Iterable[Mapping[str, Any]], index: str) -> Log:
    """A log of rows such as JSON objects. `index` is the key that holds the step or the epoch."""
    found: list[Any] = []
    columns: dict[str, Column] = {}
    for names, block in _blocks(rows):
        numbers = list(range(len(found), len(found) + len(block)))  # the same numbers in every column
        for name, cells in zip(names, zip(*block, strict=True), strict=True):
            column = columns.get(name)
            if column is None:
                column = columns[name] = Column()
            column.rows.extend(numbers)
            column.cells.extend(cells)
        place = names.index(index) if index in names else None
        found += [None] * len(block) if place is None else [cells[place] for cells in block]
    return Log(found, columns)


def _blocks(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    """Rows in a row that have the same names, as names and cells. Most rows of a log do, and a block is turned at once."""
    names: tuple[str, ...] = ()
    block: list[tuple[Any, ...]] = []
    for row in rows:
        if tuple(row) != names or len(block) == _BLOCK:
            if block:
                yield names, block
            names, block = tuple(row), []
        block.append(tuple(row.values()))
    if block:
        yield names, block


def flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Cells of a row whose values may be maps: `{"train": {"loss": 1}}` has the column `train.loss`. A list is no number: it stands in
    its column as a text that says so, and is told where the column is mapped."""
    for name, cell in row.items():
        if isinstance(cell, dict):
            yield from flat(cell, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", f"a list of {len(cell)}" if isinstance(cell, list) else cell
