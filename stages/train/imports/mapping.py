"""Log + card -> rows of history, and what a reader must know of them: stride, gaps, overlaps, contamination, merged names."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import multimode
from typing import Any

from stages.contracts.import_card import ColumnCard, Gap, Held, ReadCard
from stages.train.imports.cells import LARGEST, NoNumber, number, scaled, whole
from stages.train.imports.epochs import Spread, spread
from stages.train.imports.log import WANDB_STEP, Column, Log, Unreadable
from stages.train.imports.merged import merged_names
from stages.train.imports.odd_numbers import hint, shares
from stages.train.imports.order import one_value_a_step
from stages.train.imports.order import parts as parts_of

FEW = 5


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
        """Steps that the log shows as done: what a later part went back behind is not, and what lies beyond the target is none the less."""
        return self.end if self.end is not None else self.steps[-1] if self.steps else 0


def mapped(log: Log, read: ReadCard, target: int, attempt: str) -> Mapped:
    """Rows of history. Where the step falls, a new part of the trajectory begins; it is an attempt of its own, so later parts win.

    Raises Unreadable for a column that is not in the log, a cell that is no number, or a step that is no whole number.
    """
    columns = {card.metric: (card, column) for card in read.columns if (column := _column(log, card)) is not None}
    used = sorted({row for _, column in columns.values() for row in column.rows})
    printed, unplaced = _steps(log, read, used)
    steps, within, tied = spread(printed, target) if read.epoch is not None else Spread(printed, 0, False)
    parts = parts_of({metric: column for metric, (_, column) in columns.items()}, steps, read.epoch is None, log.starts)
    names = [attempt] if max(parts.values(), default=0) == 0 else [f"{attempt}-part{n + 1}" for n in range(max(parts.values()) + 1)]
    rows: list[dict[str, Any]] = []
    again: dict[str, int] = {}
    held: list[Held] = []
    huge: Counter[str] = Counter()
    odd: list[str] = []
    for metric, (card, column) in columns.items():
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for row, cell in zip(column.rows, column.cells, strict=True):
            step = steps.get(row)
            if step is not None:
                place = (parts[row], step) if read.epoch is None else (row, step)  # printed epochs are too coarse to tell rows apart
                found[place] = {"attempt": names[parts[row]], "step": step, "metric": metric, **_cell(cell, card, step, row, huge)}
        rows += found.values()
        held += _held(metric, [cell["value"] for cell in found.values() if cell["value"] is not None])
        again[card.column] = sum(row in steps for row in column.rows) - len(found)
        if again[card.column]:
            one_value_a_step(card.column, column, parts, steps)
        odd += shares(card, list(found.values()))
    order = {name: place for place, name in enumerate(names)}
    rows.sort(key=lambda row: (order[row["attempt"]], row["step"]))
    distinct = tuple(sorted(set(steps.values())))
    usual = min(multimode(later - earlier for earlier, later in pairwise(distinct)), default=1)
    gaps = tuple(Gap(after=a, before=b) for a, b in pairwise(distinct) if b - a > max(usual, within))
    notes = [
        *log.notes,
        *_notes(log, read, steps, parts, unplaced, target),
        *_epochs(read, printed, within, tied),
        *_again(again),
        *_huge(huge),
        *odd,
    ]
    notes += [*_sparse(columns, steps, distinct), *merged_names(log), *_sampled(distinct, gaps)]
    return Mapped(rows, len(steps), distinct, usual, gaps, tuple(notes), _end(steps, parts, target), tuple(held))


def _held(metric: str, values: list[float]) -> list[Held]:
    if not values:
        return []
    mean = math.fsum(values) / len(values)
    return [Held(metric=metric, rows=len(values), first=values[0], last=values[-1], lowest=min(values), highest=max(values), mean=mean)]


def _column(log: Log, card: ColumnCard) -> Column | None:
    found = log.columns.get(card.column)
    if card.column in log.at_once:
        raise Unreadable(log.at_once[card.column])
    if found is None and card.column in log.no_numbers:
        raise Unreadable(
            f"`{card.column}` is in the log and holds no numbers (histogram, table, text or medium), so it is no `{card.metric}`"
        )
    if found is None and not card.optional:
        near = difflib.get_close_matches(card.column, list(log.columns), n=1, cutoff=0.6)
        meant = f"; did you mean `{near[0]}`?" if near else "."
        known = ", ".join(sorted(log.columns)[:12]) + (", ..." if len(log.columns) > 12 else "") or "none"
        raise Unreadable(f"no column `{card.column}` for the metric `{card.metric}`{meant} Columns of the log: {known}")
    return found


def _cell(cell: Any, card: ColumnCard, step: int, row: int, huge: Counter[str]) -> dict[str, Any]:
    """Value and state. `huge` counts, by column, the finite numbers that count as not finite."""
    try:
        found = number(cell)
    except NoNumber as text:
        raise Unreadable(f"`{card.column}` at step {step} (row {row + 1} of the log) is no number: {text}{hint(cell)}") from None
    if found is None:
        return {"value": None, "state": "null"}
    value = scaled(found, card.factor)
    if value is not None:
        return {"value": value, "state": "value"}
    huge[card.column] += math.isfinite(found)
    return {"value": None, "state": "nonfinite"}


def _steps(log: Log, read: ReadCard, used: list[int]) -> tuple[dict[int, int], int]:
    """Row -> octavo's step (from 1), and how many rows have no place."""
    found, unplaced = {}, 0
    shift = 1 - read.counts_from
    for row in used:
        index = log.index[row]
        try:
            if read.epoch is not None:
                epoch = number(index)
                step = None if epoch is None or not math.isfinite(epoch) else round(epoch * (read.steps_per_epoch or 0))
            else:
                step = whole(index)
        except NoNumber as text:
            raise Unreadable(f"the step in row {row + 1} is no whole number from 0: {text}{_as_epoch(index, read)}") from None
        if step is None:
            unplaced += 1
        else:
            found[row] = step + shift
    if used and not found:
        raise Unreadable(_without_steps(log, read))
    return found, unplaced


_NAMES = ("step", "Step", "global_step", "train/global_step", "_step", "iteration", "iter", "update", "steps")
"""Columns that logs have for it, the likeliest first."""


def _without_steps(log: Log, read: ReadCard) -> str:
    wanted = read.epoch or read.step or (WANDB_STEP if read.format in ("wandb", "wandb_file") else "step")
    other = next((f"; name it: `step: {name}`" for name in _NAMES if name in log.columns and name != wanted), "")
    if other.endswith(" _step`"):
        other += " with `counts_from: 0`, if each call of log() was one step: W&B counts calls there, not steps"
    if not other and wanted != "epoch" and "epoch" in log.columns:
        other = "; it has epochs: `epoch: epoch` with `steps_per_epoch`"
    known = ", ".join(sorted(log.columns)[:12]) + (", ..." if len(log.columns) > 12 else "")
    return f"no row of a metric has a step (column `{wanted}`){other}. Columns of the log: {known}"


def _as_epoch(index: Any, read: ReadCard) -> str:
    looks = read.epoch is None and isinstance(index, float) and math.isfinite(index) and index >= 0 and index != int(index)
    return f"; if it is the epoch, say `epoch: {read.step or 'step'}` with `steps_per_epoch`" if looks else ""


def _end(steps: dict[int, int], parts: dict[int, int], target: int) -> int | None:
    """The last part's last step. A log that ever went beyond the target keeps that step: the run was trained on."""
    last = max(parts.values(), default=0)
    if not last or max(steps.values()) > target:
        return None
    return max(step for row, step in steps.items() if parts[row] == last)


def _notes(log: Log, read: ReadCard, steps: dict[int, int], parts: dict[int, int], unplaced: int, target: int) -> Iterator[str]:
    if log.cut:
        yield f"cut: {log.cut}; everything before it was read"
    if unplaced:
        yield f"{unplaced} rows hold a metric and no step; they were left out"
    ends = {part: max(steps[row] for row in steps if parts[row] == part) for part in sorted(set(parts.values()))}
    starts = {part: min(steps[row] for row in steps if parts[row] == part) for part in ends}
    for part in list(ends)[1:]:
        anew = ", the first one: started anew, or another run in the same log" if starts[part] <= starts[0] else ""
        yield f"resumed: logged to step {ends[part - 1]}, then again from step {starts[part]}{anew}; the later rows count"
    if log.planned is not None and log.planned != target:
        yield f"the trainer was told to make {log.planned} steps, and the spec says {target}"
    if steps and max(steps.values()) > target:
        yield f"contaminated: the log reaches step {max(steps.values())} of {target}, so a finished run was trained on"
    if steps and min(steps.values()) < 1:
        yield "the log has a step 0; octavo counts from 1, so it lies in no window (`counts_from: 0` if it is the first step)"


def _epochs(read: ReadCard, printed: dict[int, int], within: int, tied: bool) -> Iterator[str]:
    """`printed`: row -> step of its printed epoch."""
    if read.epoch is None:
        return
    yield f"the log's index is the epoch, not the step: step = epoch x {read.steps_per_epoch:g}, rounded"
    many, few = len(printed), len(set(printed.values()))
    if tied:
        yield (
            f"of {many} rows that print {few} epochs some find no room up to the next one and share its step; "
            f"the others are spread evenly up to it, within {within} steps"
        )
    elif many > few:
        yield f"{many} rows print {few} epochs: those of one are spread evenly up to the next, so a step is known to within {within} steps"


def _again(again: dict[str, int]) -> Iterator[str]:
    """A step that was logged twice without going back has two values of a metric, and a series has one."""
    many = {column: count for column, count in again.items() if count}
    if many:
        few = ", ".join(f"`{column}` {count}" for column, count in list(many.items())[:FEW]) + (", ..." if len(many) > FEW else "")
        yield f"logged again at a step that it held already, so many times: {few}; the later value counts"


def _huge(huge: Counter[str]) -> Iterator[str]:
    many = {column: count for column, count in huge.items() if count}
    if many:
        few = ", ".join(f"`{column}` {count}" for column, count in list(many.items())[:FEW]) + (", ..." if len(many) > FEW else "")
        yield f"numbers beyond {LARGEST:g}, which count as not finite: {few}"


def _sparse(columns: dict[str, tuple[ColumnCard, Column]], steps: dict[int, int], distinct: tuple[int, ...]) -> Iterator[str]:
    """Columns that hold fewer steps than the log, such as those of an evaluation now and then."""
    held = {card.column: len({steps[row] for row in column.rows if row in steps}) for card, column in columns.values()}
    fewer = [f"`{column}` at {count} of {len(distinct)}" for column, count in held.items() if count < len(distinct)]
    if fewer:
        yield f"not logged at every step of the log: {', '.join(fewer[:FEW])}" + (", ..." if len(fewer) > FEW else "")


def _sampled(steps: tuple[int, ...], gaps: tuple[Gap, ...]) -> Iterator[str]:
    """W&B's `history()` and its exports give 500 or so rows picked from all, at uneven distances."""
    if len(gaps) > len(steps) / 10 and len(gaps) > FEW:
        yield f"uneven: {len(gaps)} of {len(steps) - 1} distances between logged steps differ from the usual one, as in a sampled export"
