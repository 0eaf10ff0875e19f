"""Log + card -> rows of history: one row a mapped metric and step, with the state of its value."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from stages.contracts.history import metric as metric_named
from stages.contracts.import_card import ColumnCard, Gap, Held, ReadCard
from stages.train.imports.cells import NoNumber, hint, number, scaled, whole
from stages.train.imports.log import WANDB_STEP, Log, Unreadable
from stages.train.imports.notes import Placed, mapping_notes
from stages.train.imports.order import Spread, check_one_value_a_step, parts_of, spread_epochs

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Mapped:
    """A log as history."""

    rows: list[dict[str, Any]]
    """As HISTORY_COLUMNS."""
    logged: int
    """Rows of the log that hold a mapped metric."""
    steps: tuple[int, ...]
    """Distinct logged steps, in order."""
    stride: int
    gaps: tuple[Gap, ...]
    notes: tuple[str, ...]
    end: int | None = None
    """Last step of the trajectory that counts, where a later part gave up what lies beyond it; None: the last logged step."""
    held: tuple[Held, ...] = ()

    @property
    def last(self) -> int:
        """Steps that the log shows as done. A later part takes back the steps behind which it went; steps beyond the target stay done."""
        return self.end if self.end is not None else self.steps[-1] if self.steps else 0


def map_log(log: Log, read: ReadCard, target: int, attempt: str) -> Mapped:
    """Rows of history. Where the step falls, a new part of the trajectory begins; it is an attempt of its own, so later parts win.

    Raises Unreadable for a column that is not in the log, a cell that is no number, or a step that is no whole number.
    """
    columns = {card: log.logged(card.column) for card in read.columns if _is_there(log, card)}
    used = sorted({row for cells in columns.values() for row in cells.index})
    printed, unplaced = _steps(log, read, used)
    spread = spread_epochs(printed, target) if read.epoch is not None else Spread(printed, 0, False)
    steps, exact = spread.steps, read.epoch is None
    rows = {card.metric: [row for row in cells.index if row in steps] for card, cells in columns.items()}
    parts = parts_of(rows, steps, exact, log.starts)
    last_part = max(parts.values(), default=0)
    cells = _cells(columns, steps, parts)
    keys = ["metric", "part", "step"] if exact else ["metric", "row"]  # printed epochs are too coarse to tell rows apart
    kept = cells.drop_duplicates(keys, keep="last")
    again = cells.groupby("column", sort=False).size() - kept.groupby("column", sort=False).size()
    for column in again.index[again > 0]:
        check_one_value_a_step(cells[cells["column"] == column])
    odd_shares = [note for card in columns if (note := _share_note(card, kept[kept["metric"] == card.metric]))]
    distinct = tuple(sorted(set(steps.values())))
    stride = _stride(distinct)
    gaps = tuple(Gap(after=a, before=b) for a, b in pairwise(distinct) if b - a > max(stride, spread.within))
    end = None
    if last_part and distinct[-1] <= target:  # a log that went beyond the target keeps that step: the run was trained on
        end = max(step for row, step in steps.items() if parts[row] == last_part)
    names = {part: f"{attempt}-part{part + 1}" if last_part else attempt for part in range(last_part + 1)}
    history = kept.sort_values(["part", "step"], kind="stable").assign(attempt=kept["part"].map(names))
    placed = Placed(log, read, target, steps, parts, printed, spread, unplaced, cells, kept, distinct, gaps)
    return Mapped(
        history[["attempt", "step", "metric", "value", "state"]].to_dict("records"),
        len(steps),
        distinct,
        stride,
        gaps,
        (*log.notes, *mapping_notes(placed, dict(again[again > 0]), odd_shares)),
        end,
        _held(kept),
    )


def _is_there(log: Log, card: ColumnCard) -> bool:
    """Whether the log has the column. Raises Unreadable when the card needs it."""
    if card.column in log.at_once:
        raise Unreadable(log.at_once[card.column])
    if card.column in log.table:
        return True
    if card.column in log.no_numbers:
        raise Unreadable(
            f"`{card.column}` is in the log and holds no numbers (histogram, table, text or medium), so it is no `{card.metric}`"
        )
    if card.optional:
        return False
    near = difflib.get_close_matches(card.column, log.columns, n=1, cutoff=0.6)
    meant = f"; did you mean `{near[0]}`?" if near else "."
    raise Unreadable(f"no column `{card.column}` for the metric `{card.metric}`{meant} Columns of the log: {_named(log) or 'none'}")


def _named(log: Log) -> str:
    return ", ".join(sorted(log.columns)[:12]) + (", ..." if len(log.columns) > 12 else "")


def _cells(columns: Mapping[ColumnCard, pd.Series[Any]], steps: Mapping[int, int], parts: Mapping[int, int]) -> pd.DataFrame:
    """One row a logged cell that has a step: metric, column, row, part, step, the number as it was logged, and its value and state in
    octavo's unit."""
    names = ("metric", "column", "row", "part", "step", "logged", "value", "state")
    rows = []
    for card, cells in columns.items():
        for row, cell in cells.items():
            step = steps.get(row)
            if step is None:
                continue
            try:
                logged = number(cell)
            except NoNumber as text:
                raise Unreadable(f"`{card.column}` at step {step} (row {row + 1} of the log) is no number: {text}{hint(cell)}") from None
            value = None if logged is None else scaled(logged, card.factor)
            state = "null" if logged is None else "nonfinite" if value is None else "value"
            rows.append((card.metric, card.column, row, parts[row], step, logged, value, state))
    return pd.DataFrame(rows, columns=names, dtype=object).astype({"row": int, "part": int, "step": int})


def _share_note(card: ColumnCard, cells: pd.DataFrame) -> str:
    """A sentence for values of a share that no share can have. Raises Unreadable when most are so: the unit is another."""
    meaning = metric_named(card.metric)
    values = cells[cells["state"] == "value"]
    beyond = values[[not -_ROUNDING <= value <= 1 + _ROUNDING for value in values["value"]]]
    if meaning is None or not meaning.share or beyond.empty:
        return ""
    first = f"{beyond['value'].iloc[0]:.6g} at step {beyond['step'].iloc[0]}"
    note = f"`{card.metric}` is a share, and {len(beyond)} of {len(values)} values of `{card.column}` are beyond 0 to 1 ({first})"
    if len(beyond) > len(values) / 2:
        other = f"is it in per cent? {card.metric}: {{column: {card.column}, unit: '%'}}"
        raise Unreadable(f"{note}; {other if card.factor == 1 else 'is its `unit` really so?'}")
    return note


def _held(cells: pd.DataFrame) -> tuple[Held, ...]:
    """The finite numbers of each metric, in the order of the log."""
    held = []
    for metric, rows in cells[cells["state"] == "value"].groupby("metric", sort=False):
        values = list(rows["value"])
        mean = math.fsum(values) / len(values)
        low, high = min(values), max(values)
        held.append(Held(metric=str(metric), rows=len(values), first=values[0], last=values[-1], lowest=low, highest=high, mean=mean))
    return tuple(held)


def _stride(steps: tuple[int, ...]) -> int:
    """The usual distance between logged steps: the most frequent one, of several the smallest; 1 without any."""
    distances = pd.Series([after - before for before, after in pairwise(steps)], dtype=int)
    return int(distances.mode().iloc[0]) if len(distances) else 1


def _steps(log: Log, read: ReadCard, used: list[int]) -> tuple[dict[int, int], int]:
    """Row -> octavo's step (from 1), and how many rows have no step."""
    index = log.logged(log.index)
    steps, unplaced = {}, 0
    for row in used:
        cell = index.get(row)
        try:
            if read.epoch is not None:
                epoch = number(cell)
                step = None if epoch is None or not math.isfinite(epoch) else round(epoch * (read.steps_per_epoch or 0))
            else:
                step = whole(cell)
        except NoNumber as text:
            raise Unreadable(f"the step in row {row + 1} is no whole number from 0: {text}{_as_epoch(cell, read)}") from None
        if step is None:
            unplaced += 1
        else:
            steps[row] = step + 1 - read.counts_from
    if used and not steps:
        raise Unreadable(_without_steps(log, read))
    return steps, unplaced


_NAMES = ("step", "Step", "global_step", "train/global_step", "_step", "iteration", "iter", "update", "steps")
"""Columns that logs have for the step, the likeliest first."""


def _without_steps(log: Log, read: ReadCard) -> str:
    wanted = read.epoch or read.step or (WANDB_STEP if read.format in ("wandb", "wandb_file") else "step")
    other = next((f"; name it: `step: {name}`" for name in _NAMES if name in log.table and name != wanted), "")
    if other.endswith(" _step`"):
        other += " with `counts_from: 0`, if each call of log() was one step: W&B counts calls there, not steps"
    if not other and wanted != "epoch" and "epoch" in log.table:
        other = "; it has epochs: `epoch: epoch` with `steps_per_epoch`"
    return f"no row of a metric has a step (column `{wanted}`){other}. Columns of the log: {_named(log)}"


def _as_epoch(cell: Any, read: ReadCard) -> str:
    looks = read.epoch is None and isinstance(cell, float) and math.isfinite(cell) and cell >= 0 and cell != int(cell)
    return f"; if it is the epoch, say `epoch: {read.step or 'step'}` with `steps_per_epoch`" if looks else ""
