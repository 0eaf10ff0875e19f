"""Log + card -> rows of history: one row a mapped metric and step, with the state of its value."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pandas as pd

from stages.contracts.history import metric as metric_named
from stages.contracts.import_card import ColumnCard, ColumnStats, Gap, ReadCard
from stages.train.imports.log import WANDB_STEP, Log, NoNumber, Unreadable, number, scaled, shortened, whole
from stages.train.imports.notes import mapping_notes, order_notes
from stages.train.imports.order import check_one_value_a_step, check_resumes, parts_of, spread_epochs

_ROUNDING = 1e-6
_CELLS = ("metric", "column", "row", "step", "logged", "value", "state")


@dataclass(frozen=True)
class Mapped:
    """A log as history."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """As HISTORY_COLUMNS."""
    logged: int = 0
    """Rows of the log that hold a mapped metric."""
    steps: tuple[int, ...] = ()
    """Distinct logged steps, in order."""
    stride: int = 1
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()
    last: int = 0
    """Steps that the log shows as done. A later part takes back the steps behind which it went; steps beyond the target stay done."""
    held: tuple[ColumnStats, ...] = ()


def map_log(log: Log, read: ReadCard, target: int, attempt: str) -> Mapped:
    """Rows of history. Where the step falls, a new part of the trajectory begins; it is an attempt of its own, so later parts win.

    Raises Unreadable for a column that is not in the log, a cell that is no number, or a step that is no whole number.
    """
    columns = {card: log.logged(card.column) for card in read.columns if _is_there(log, card)}
    used = sorted({row for cells in columns.values() for row in cells.index})
    steps = _steps(log, read, used)
    if not steps:
        return Mapped(notes=tuple(log.notes))
    printed, within, by_row = len(set(steps.values())), 0, ["metric", "row"]  # printed epochs are too coarse to tell rows apart
    if read.epoch is not None:
        steps, within = spread_epochs(steps, target)
    cells = _cells(columns, steps)
    parts = parts_of(cells)
    cells["part"] = cells["row"].map(parts)
    if read.epoch is None:
        check_resumes(cells, log.starts)
        by_row = ["metric", "part", "step"]
    kept = cells.drop_duplicates(by_row, keep="last")
    again = cells.groupby("column", sort=False).size() - kept.groupby("column", sort=False).size()
    for column in again.index[again > 0]:
        check_one_value_a_step(cells[cells["column"] == column])
    odd_shares = [note for card in columns if (note := _share_note(card, kept[kept["metric"] == card.metric]))]
    distinct = tuple(sorted(set(steps.values())))
    distances = pd.Series(distinct, dtype=int).diff().dropna().mode()  # the most frequent distance, of several the smallest
    stride = int(distances.iloc[0]) if len(distances) else 1
    gaps = tuple(Gap(after=a, before=b) for a, b in pairwise(distinct) if b - a > max(stride, within))
    last_part = max(parts.values())
    # a log that went beyond the target keeps that step: the run was trained on
    last = distinct[-1] if distinct[-1] > target else max(step for row, step in steps.items() if parts[row] == last_part)
    names = {part: f"{attempt}-part{part + 1}" if last_part else attempt for part in range(last_part + 1)}
    history = kept.sort_values(["part", "step"], kind="stable").assign(attempt=kept["part"].map(names))
    notes = [*log.notes, *order_notes(log, cells, distinct, len(used) - len(steps), target)]
    if read.epoch is not None:
        notes.append(f"the log's index is the epoch, not the step: step = epoch x {read.steps_per_epoch:g}, rounded")
    if within:
        notes.append(
            f"{len(steps)} rows print {printed} epochs: those of one are spread evenly up to the next, "
            f"so a step is known to within {within} steps"
        )
    return Mapped(
        rows=history[["attempt", "step", "metric", "value", "state"]].to_dict("records"),
        logged=len(steps),
        steps=distinct,
        stride=stride,
        gaps=gaps,
        notes=(*notes, *mapping_notes(log, cells, kept, odd_shares, len(distinct), len(gaps))),
        last=last,
        held=_held(kept),
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
    if not card.optional:
        near = difflib.get_close_matches(card.column, log.columns, n=1, cutoff=0.6)
        meant = f"; did you mean `{near[0]}`?" if near else "."
        raise Unreadable(f"no column `{card.column}` for the metric `{card.metric}`{meant} Columns of the log: {_named(log)}")
    return False


def _named(log: Log) -> str:
    return shortened(sorted(log.columns), 12) or "none"


def _steps(log: Log, read: ReadCard, used: list[int]) -> dict[int, int]:
    """Row -> octavo's step (from 1), for those of the used rows that have one. Raises Unreadable when none has."""
    index = log.logged(log.index)
    steps = {}
    for row in used:
        cell = index.get(row)
        try:
            if read.epoch is not None:
                epoch = number(cell)
                step = None if epoch is None or not math.isfinite(epoch) else round(epoch * (read.steps_per_epoch or 0))
            else:
                step = whole(cell)
        except NoNumber as text:
            raise Unreadable(
                f"the step in row {row + 1} is no whole number from 0: {text}; an epoch is declared as `epoch`, with `steps_per_epoch`"
            ) from None
        if step is not None:
            steps[row] = step + 1 - read.counts_from
    if used and not steps:
        wanted = read.epoch or read.step or (WANDB_STEP if read.format in ("wandb", "wandb_file") else "step")
        raise Unreadable(
            f"no row of a metric has a step (column `{wanted}`): name the log's own by `step`, or by `epoch` with `steps_per_epoch` "
            f"(`_step` of W&B counts calls of log(), not steps). Columns of the log: {_named(log)}"
        )
    return steps


def _cells(columns: Mapping[ColumnCard, pd.Series[Any]], steps: Mapping[int, int]) -> pd.DataFrame:
    """One row a logged cell that has a step: metric, column, row, step, the number as it was logged, and its value and state in octavo's
    unit."""
    rows = []
    for card, cells in columns.items():
        for row, cell in cells.items():
            if row not in steps:
                continue
            try:
                logged = number(cell)
            except NoNumber as text:
                raise Unreadable(
                    f"`{card.column}` at step {steps[row]} (row {row + 1} of the log) is no number: {text}; write it as 1234.5 "
                    "(a unit goes into the spec's `unit`), and leave a cell empty where nothing was logged"
                ) from None
            value = None if logged is None else scaled(logged, card.factor)
            state = "null" if logged is None else "nonfinite" if value is None else "value"
            rows.append((card.metric, card.column, row, steps[row], logged, value, state))
    return pd.DataFrame(rows, columns=_CELLS, dtype=object).astype({"row": int, "step": int})


def _share_note(card: ColumnCard, cells: pd.DataFrame) -> str:
    """A sentence for values of a share that no share can have. Raises Unreadable when most are so: the unit is another."""
    meaning = metric_named(card.metric)
    values = cells[cells["state"] == "value"]
    beyond = values[~values["value"].astype(float).between(-_ROUNDING, 1 + _ROUNDING)]
    if meaning is None or not meaning.share or beyond.empty:
        return ""
    first = f"{beyond['value'].iloc[0]:.6g} at step {beyond['step'].iloc[0]}"
    note = f"`{card.metric}` is a share, and {len(beyond)} of {len(values)} values of `{card.column}` are beyond 0 to 1 ({first})"
    if len(beyond) > len(values) / 2:
        other = f"is it in per cent? {card.metric}: {{column: {card.column}, unit: '%'}}"
        raise Unreadable(f"{note}; {other if card.factor == 1 else 'is its `unit` really so?'}")
    return note


def _held(cells: pd.DataFrame) -> tuple[ColumnStats, ...]:
    """The finite numbers of each metric, in the order of the log."""
    values = cells[cells["state"] == "value"].astype({"value": float}).groupby("metric", sort=False)["value"]
    table = values.agg(rows="size", first="first", last="last", lowest="min", highest="max", mean="mean")
    return tuple(ColumnStats(metric=str(metric), **numbers) for metric, numbers in table.to_dict("index").items())
