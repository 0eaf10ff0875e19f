"""Log + card -> rows of history: one row a mapped metric and step, with the state of its value, and notes on what is odd."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import pandas as pd

from stages.contracts.history import LARGEST
from stages.contracts.history import metric as metric_named
from stages.contracts.import_card import ColumnCard, ColumnStats, Gap, ReadCard
from stages.train.imports.log import FEW, WANDB_STEP, Log, NoNumber, Unreadable, number, scaled, shortened, whole

_ROUNDING = 1e-6
_TOLERANCE = 1e-4
_PART = re.compile(r"(?P<prefix>.*/)?rewards/(?P<name>[^/]+)/mean")


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
    printed, within = len(set(steps.values())), 0
    if read.epoch is not None:
        steps, within = _spread_epochs(steps, target)
    cells = _cells(columns, steps)
    parts = _parts(cells)
    cells["part"] = cells["row"].map(parts)
    if read.epoch is None:
        _check_resumes(cells, log.starts)
        for _, logged in cells.groupby("column", sort=False):
            _check_one_value_a_step(logged)
    # printed epochs are too coarse to tell rows apart
    kept = cells.drop_duplicates(["metric", "row"] if read.epoch is not None else ["metric", "part", "step"], keep="last")
    distinct = tuple(sorted(set(steps.values())))
    distances = pd.Series(distinct, dtype=int).diff().dropna().mode()  # the most frequent distance, of several the smallest
    stride = int(distances.iloc[0]) if len(distances) else 1
    gaps = tuple(Gap(after=a, before=b) for a, b in pairwise(distinct) if b - a > max(stride, within))
    last_part = max(parts.values())
    names = {part: f"{attempt}-part{part + 1}" if last_part else attempt for part in range(last_part + 1)}
    history = kept.sort_values(["part", "step"], kind="stable").assign(attempt=kept["part"].map(names))
    notes = [*log.notes, *_order_notes(log, cells, distinct, len(used) - len(steps), target)]
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
        notes=(*notes, *_value_notes(log, list(columns), cells, kept, len(distinct), len(gaps))),
        # a log that went beyond the target keeps that step: the run was trained on
        last=distinct[-1] if distinct[-1] > target else max(step for row, step in steps.items() if parts[row] == last_part),
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


def _spread_epochs(steps: Mapping[int, int], target: int) -> tuple[dict[int, int], int]:
    """Rows of one printed epoch, evenly from its step up to the next printed one; those of the last one are given as much room as the
    narrowest before it had, within the target. `steps`: row of the log -> rounded step. Returns row -> step, and how far from it a row's
    true step may be: 0 when every printed epoch has one row."""
    blocks = [(step, [row for row, _ in rows]) for step, rows in groupby(sorted(steps.items()), key=lambda row: row[1])]
    if len(blocks) == len(steps):
        return dict(steps), 0
    widths = [after - before for (before, _), (after, _) in pairwise(blocks)]
    rising = [width for width in widths if width > 0]
    last_room = min([*rising, max(1, target - blocks[-1][0] + 1)]) if rising else 1
    rooms = [*(width if width > 0 else last_room for width in widths), last_room]
    spread = {
        row: step + place * room // len(rows)
        for (step, rows), room in zip(blocks, rooms, strict=True)
        for place, row in enumerate(rows)
    }  # fmt: skip
    return spread, max(rising, default=0)


def _cells(columns: Mapping[ColumnCard, pd.Series[Any]], steps: Mapping[int, int]) -> pd.DataFrame:
    """One row a logged cell that has a step, with the number as it was logged, and its value and state in octavo's unit."""
    rows = []
    for card, cells in columns.items():
        for row, cell in cells[cells.index.isin(list(steps))].items():
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
    names = ["metric", "column", "row", "step", "logged", "value", "state"]
    return pd.DataFrame(rows, columns=names, dtype=object).astype({"row": int, "step": int})


def _parts(cells: pd.DataFrame) -> dict[int, int]:
    """Row -> number of its part. A part begins where a metric is logged at a step below its last one; rows of other metrics may come
    late."""
    parts: dict[int, int] = {}
    latest: dict[str, int] = {}
    part = 0
    ordered = cells.sort_values("row")[["row", "step", "metric"]].itertuples(index=False, name=None)
    for row, logged in groupby(ordered, lambda cell: cell[0]):
        steps = {metric: step for _, step, metric in logged}
        if any(step < latest.get(metric, 0) for metric, step in steps.items()):
            part, latest = part + 1, {}
        latest |= steps
        parts[row] = part
    return parts


def _check_resumes(cells: pd.DataFrame, starts: set[int]) -> None:
    """A resumed run trains steps again and logs them again; a new file (`starts`) is a program that began anew. Raises Unreadable for a
    part that does neither, unless it is the last one and ends before it comes to a logged step: its rows are only out of order."""
    last_part = cells["part"].max()
    for part in range(1, last_part + 1):
        mine, before = cells[cells["part"] == part], cells[cells["part"] < part]
        begins, previous = mine["row"].min(), cells.loc[cells["part"] == part - 1, "row"].min()
        if len(mine.merge(before, on=["metric", "step"])) or any(previous < start <= begins for start in starts):
            continue
        both = before.merge(mine.groupby("metric")["step"].agg(["min", "max"]), on="metric")
        if part < last_part or both["step"].between(both["min"], both["max"]).any():
            last, step = before.loc[before["row"].idxmax(), "step"], mine.loc[mine["row"].idxmin(), "step"]
            raise Unreadable(
                f"the steps are in no order: row {begins + 1} of the log goes back from step {last} to {step}, and the steps between are "
                "not logged again, so it is no resume: sort rows that are only out of order by step; of a run that was resumed there, "
                f"delete the rows above that one from step {step} on"
            )


def _check_one_value_a_step(cells: pd.DataFrame) -> None:
    """Raises Unreadable when most steps of a column have several values that differ: the log does not say which of them is the run's."""
    values = cells.assign(text=cells["logged"].map(repr)).groupby(["part", "step"], sort=False)["text"]
    counts = values.nunique()
    several = counts[counts > 1]
    if len(several) > len(values) / 2 and len(cells) - len(values) > 1:
        step, few = several.index[0][1], ", ".join(values.get_group(several.index[0])[:3])
        raise Unreadable(
            f"`{cells['column'].iloc[0]}` has several values at {len(several)} of {len(values)} steps ({few} at step {step}), so the log "
            "holds several runs or processes, or several rows a step: "
            "give each run a log of its own with one row a step (of micro-batches their mean, without the rows of an evaluation)"
        )


def _order_notes(log: Log, cells: pd.DataFrame, distinct: Sequence[int], unplaced: int, target: int) -> Iterator[str]:
    """Where the log breaks off, is resumed, begins and ends. `unplaced`: rows with a metric and no step."""
    if log.cut:
        yield f"cut: {log.cut}; everything before it was read"
    if unplaced:
        yield f"{unplaced} rows hold a metric and no step; they were left out"
    parts = cells.groupby("part")["step"].agg(["min", "max"])
    for part in parts.index[1:]:
        start = parts.loc[part, "min"]
        anew = ", the first one: started anew, or another run in the same log" if start <= parts.loc[0, "min"] else ""
        yield f"resumed: logged to step {parts.loc[part - 1, 'max']}, then again from step {start}{anew}; the later rows count"
    if log.planned is not None and log.planned != target:
        yield f"the trainer was told to make {log.planned} steps, and the spec says {target}"
    if distinct[-1] > target:
        yield f"contaminated: the log reaches step {distinct[-1]} of {target}, so a finished run was trained on"
    if distinct[0] < 1:
        yield "the log has a step 0; octavo counts from 1, so it lies in no window (`counts_from: 0` if it is the first step)"


def _value_notes(log: Log, cards: Sequence[ColumnCard], cells: pd.DataFrame, kept: pd.DataFrame, steps: int, gaps: int) -> Iterator[str]:
    """What is odd about the values. `kept`: the last cell of each metric and step; `steps` and `gaps`: how many the log has."""
    columns = cells.groupby("column", sort=False)
    again = columns.size() - kept.groupby("column", sort=False).size()
    if again.any():
        yield f"logged again at a step that it held already, so many times: {_counted(again[again > 0])}; the later value counts"
    huge = kept[(kept["state"] == "nonfinite") & kept["logged"].map(lambda cell: cell is not None and math.isfinite(cell))]
    if len(huge):
        yield f"numbers beyond {LARGEST:g}, which count as not finite: {_counted(huge.groupby('column', sort=False).size())}"
    yield from filter(None, (_share_note(card, kept[(kept["metric"] == card.metric) & (kept["state"] == "value")]) for card in cards))
    fewer = [f"`{column}` at {count} of {steps}" for column, count in columns["step"].nunique().items() if count < steps]
    if fewer:
        yield f"not logged at every step of the log: {shortened(fewer)}"
    yield from _merged_names(log)
    if gaps > steps / 10 and gaps > FEW:  # W&B's `history()` and its exports pick 500 rows or so
        yield f"uneven: {gaps} of {steps - 1} distances between logged steps differ from the usual one, as in a sampled export"


def _counted(counts: pd.Series[Any]) -> str:
    return shortened([f"`{column}` {count}" for column, count in counts.items()])


def _share_note(card: ColumnCard, values: pd.DataFrame) -> str:
    """A sentence for values of a share that no share can have. Raises Unreadable when most are so: the unit is another."""
    meaning = metric_named(card.metric)
    beyond = values[~values["value"].astype(float).between(-_ROUNDING, 1 + _ROUNDING)]
    if meaning is None or not meaning.share or beyond.empty:
        return ""
    first = f"{beyond['value'].iloc[0]:.6g} at step {beyond['step'].iloc[0]}"
    note = f"`{card.metric}` is a share, and {len(beyond)} of {len(values)} values of `{card.column}` are beyond 0 to 1 ({first})"
    if len(beyond) > len(values) / 2:
        other = f"is it in per cent? {card.metric}: {{column: {card.column}, unit: '%'}}"
        raise Unreadable(f"{note}; {other if card.factor == 1 else 'is its `unit` really so?'}")
    return note


def _merged_names(log: Log) -> Iterator[str]:
    """TRL logs each reward function under its `__name__`, and equal names merge: then the total reward is not the sum of its parts, on
    every row that holds them all."""
    matches = {name: match for name in log.columns if (match := _PART.fullmatch(name))}
    for prefix in sorted({match["prefix"] or "" for match in matches.values()}):
        parts = sorted(name for name, match in matches.items() if (match["prefix"] or "") == prefix)
        if f"{prefix}reward" not in log.table:
            continue
        numbers = log.table[[f"{prefix}reward", *parts]].map(_finite).dropna()
        reward, added = numbers.iloc[:, 0], numbers.iloc[:, 1:].sum(axis=1)
        wrong = (reward - added).abs() > _TOLERANCE * reward.abs().clip(lower=1.0)
        if wrong.sum() > len(numbers) / 2:
            yield (
                f"merged: the reward ({reward[wrong].iloc[0]:.4g} in the first such row) is not the sum of its logged parts "
                f"{', '.join(matches[name]['name'] for name in parts)} ({added[wrong].iloc[0]:.4g}), so reward functions share a name, "
                "have weights, or score some completions only: the parts do not make the whole"
            )


def _finite(cell: object) -> float:
    """The cell as a finite number; NaN for all else."""
    try:
        value = number(cell)
    except NoNumber:
        return math.nan
    return value if value is not None and math.isfinite(value) and cell == cell else math.nan


def _held(cells: pd.DataFrame) -> tuple[ColumnStats, ...]:
    """The finite numbers of each metric, in the order of the log."""
    values = cells[cells["state"] == "value"].astype({"value": float}).groupby("metric", sort=False)["value"]
    table = values.agg(rows="size", first="first", last="last", lowest="min", highest="max", mean="mean")
    return tuple(ColumnStats(metric=str(metric), **numbers) for metric, numbers in table.to_dict("index").items())
