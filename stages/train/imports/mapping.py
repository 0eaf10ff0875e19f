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
from stages.train.imports.log import FEW, WANDB_STEP, Log, NoNumber, Unreadable, sentence, shortened, value_and_state, whole
from stages.train.imports.resumes import compare
from stages.train.imports.rows import check_one_run
from stages.train.imports.states import logged_cells

_ROUNDING = 1e-6
MOST_RESUMES = 100
"""In one log."""
_TOLERANCE = 1e-4
_EXACT = ("grad_norm", "learning_rate")
"""Metrics of which 0 says that nothing is learned."""
_OF_ALL = re.compile(r"\s*([0-9]{1,12})/([0-9]{1,12})\s*")
"""`12/300`, as ms-swift writes a step."""
_PART = re.compile(r"(?P<prefix>.*/)?rewards/(?P<name>[^/]+)/mean")


@dataclass(frozen=True)
class Mapped:
    """A log as history."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """As HISTORY_COLUMNS."""
    last: int = 0
    """Steps that the log shows as done. A later part takes back the steps behind which it went; steps beyond the target stay done."""
    columns: tuple[ColumnCard, ...] = ()
    """Those that the log has, under the names that it has."""
    record: dict[str, Any] = field(default_factory=dict)
    """What Imported (stages/contracts/import_card.py) says of the log."""


def nothing(*notes: str) -> Mapped:
    """A log without a row that counts."""
    return Mapped(record={"rows": 0, "first_step": None, "last_step": None, "stride": 1, "notes": notes})


def map_log(log: Log, read: ReadCard, target: int, attempt: str) -> Mapped:
    """Rows of history. Where the step falls, a new part of the trajectory begins; it is an attempt of its own, so later parts win.

    Raises Unreadable for a column that is not in the log, a cell that is no number, a step that is no whole number, or several runs.
    """
    columns, states = logged_cells(log, {card: log.logged(card.column) for card in _in_log(log, read.columns)})
    used = sorted({row for cells in columns.values() for row in cells.index})
    steps = _steps(log, read, used)
    if not steps:
        return nothing(*log.notes, *states)
    printed, within, each, by_epoch = len(set(steps.values())), 0, 0, read.epoch is not None
    unplaced = len(used) - len(steps)
    if by_epoch:
        steps, within, each = _steps_of_epochs(log, steps, read.steps_per_epoch or 1.0, target)
    cells, zeros = _cells(log, columns, steps)
    if cells.empty:
        return nothing(*log.notes, *states, *zeros)
    parts = _parts(cells)
    steps = {row: steps[row] for row in parts}
    cells["part"] = cells["row"].map(parts)
    distinct = sorted(set(steps.values()))
    distances = pd.Series(distinct, dtype=int).diff().dropna().mode()  # the most frequent distance, of several the smallest
    stride = int(distances.iloc[0]) if len(distances) else 1
    if not log.is_one_run:
        check_one_run(log, steps, parts, target, stride)
    if not by_epoch:
        _check_resumes(cells, log.starts)
        for _, logged in cells.groupby("column", sort=False):
            _check_one_value_a_step(logged)
    # printed epochs are too coarse to tell rows apart
    kept = cells.drop_duplicates(["metric", "row"] if by_epoch and not each else ["metric", "part", "step"], keep="last")
    gaps = [Gap(after=a, before=b) for a, b in pairwise(distinct) if b - a > max(stride, within)]
    last_part = max(parts.values())
    names = {part: f"{attempt}-part{part + 1}" if last_part else attempt for part in range(last_part + 1)}
    history = kept.sort_values(["part", "step"], kind="stable").assign(attempt=kept["part"].map(names))
    notes = [*log.notes, *states, *_order_notes(log, cells, distinct, unplaced, target)]
    reward = next((card.column for card in columns if card.metric == "reward"), None)
    notes += compare(log, steps, parts, reward)
    notes += [sentence("epoch", steps=read.steps_per_epoch)] if by_epoch else []
    notes += [sentence("epochs_of_rows", rows=len(steps), each=each)] if each else []
    notes += [sentence("spread", rows=len(steps), printed=printed, within=within)] if within else []
    notes += zeros
    notes += _value_notes(log, columns, cells, kept, len(distinct), len(gaps))
    values = kept[kept["state"] == "value"].astype({"value": float}).groupby("metric", sort=False)["value"]
    held = values.agg(rows="size", first="first", last="last", lowest="min", highest="max", mean="mean").to_dict("index")
    return Mapped(
        rows=history[["attempt", "step", "metric", "value", "state"]].to_dict("records"),
        # a log that went beyond the target keeps that step: the run was trained on
        last=distinct[-1] if distinct[-1] > target else max(step for row, step in steps.items() if parts[row] == last_part),
        columns=tuple(columns),
        record={
            "rows": len(steps),
            "first_step": distinct[0],
            "last_step": distinct[-1],
            "stride": stride,
            "gaps": tuple(gaps[:FEW]),
            "gap_count": len(gaps),
            "notes": tuple(notes),
            "held": tuple(ColumnStats(metric=str(metric), **numbers) for metric, numbers in held.items()),
        },
    )


def places(log: Log, read: ReadCard) -> list[float]:
    """The values of the index in rows of a metric that is mapped, each once, in their order."""
    rows = {row for card in read.columns for name in card.names for row in log.logged(name).index}
    return sorted({cell for row, cell in log.logged(log.index).items() if row in rows and isinstance(cell, float)})


def _in_log(log: Log, columns: Sequence[ColumnCard]) -> Iterator[ColumnCard]:
    """The columns that the log has, each with the name that it has there. Raises Unreadable for one that is needed and not there."""
    for card in columns:
        name = next((name for name in card.names if name in log.table or name in log.unusable), None)
        if name in log.unusable:
            raise log.unusable[name]
        if name is not None:
            yield card if name == card.column else card.model_copy(update={"column": name})
        elif not card.optional:
            near = difflib.get_close_matches(card.column, log.columns, n=1, cutoff=0.6)
            meant = f"; did you mean `{near[0]}`?" if near else "."
            raise Unreadable("no_column", column=card.column, metric=card.metric, meant=meant, columns=_named(log))


def _named(log: Log) -> str:
    return shortened(sorted(log.columns), 12) or "none"


def _steps(log: Log, read: ReadCard, used: list[int]) -> dict[int, int]:
    """Row -> octavo's step (from 1), for those of the used rows that have one. Raises Unreadable when none has."""
    index, steps = log.logged(log.index), dict[int, int]()
    for row in used:
        cell = index.get(row)
        if isinstance(cell, str) and (parts := _OF_ALL.fullmatch(cell)):
            cell, log.settings = float(parts[1]), {"max_steps": int(parts[2])} | log.settings
        try:
            is_epoch = read.epoch is not None and isinstance(cell, float)
            step = whole(cell) if not is_epoch else round(cell * (read.steps_per_epoch or 0)) if math.isfinite(cell) else None
        except NoNumber as text:
            raise Unreadable("no_whole_step", row=row + 1, text=text) from None
        if step is not None:
            steps[row] = step + 1 - read.counts_from
    if used and not steps:
        wanted = read.epoch or read.step or (WANDB_STEP if read.format in ("wandb", "wandb_file") else "step")
        raise Unreadable("no_step", wanted=wanted, columns=_named(log))
    return steps


def _steps_of_epochs(log: Log, rounded: Mapping[int, int], steps_per_epoch: float, target: int) -> tuple[dict[int, int], int, int]:
    """Rows at the printed epochs -> steps; how far a row's true step may be from it; and the steps of one row, where that is known: row k
    stands at k times so many steps, and no other whole number gives all printed epochs."""
    epochs = [float(log.table.at[row, log.index]) for row in rounded]
    magnitudes = [math.floor(math.log10(epoch)) if epoch > 0 else -9 for epoch in epochs]  # with so many digits behind the point:
    digits = pd.Series([len(f"{epoch:.9f}".rstrip("0").partition(".")[2]) for epoch in epochs]).groupby(magnitudes).transform("max")
    halves = 0.5 * 10.0 ** -digits.astype(float) * steps_per_epoch + _ROUNDING
    low = max((epoch * steps_per_epoch - half) / place for place, (epoch, half) in enumerate(zip(epochs, halves, strict=True), start=1))
    high = min((epoch * steps_per_epoch + half) / place for place, (epoch, half) in enumerate(zip(epochs, halves, strict=True), start=1))
    each = math.ceil(low)
    if len(epochs) > 1 and 1 <= each <= high < each + 1 and digits.max() < 9:
        return {row: place * each for place, row in enumerate(rounded, start=1)}, 0, each
    return *_spread_epochs(rounded, target), 0


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
    spread = dict[int, int]()
    for (step, rows), width in zip(blocks, [*widths, 0], strict=True):
        spread |= {row: step + place * (width if width > 0 else last_room) // len(rows) for place, row in enumerate(rows)}
    return spread, max(rising, default=0)


def _cells(log: Log, columns: Mapping[ColumnCard, pd.Series[Any]], steps: Mapping[int, int]) -> tuple[pd.DataFrame, list[str]]:
    """One row a logged cell that has a step, with the number as it was logged, and its value and state in octavo's unit. Zeros that may be
    small numbers, printed with few digits, are left out where zero means another thing; a sentence says so."""
    rows, notes = [], []
    for card, cells in columns.items():
        digits, zeros = log.decimals.get(card.column) if card.metric in _EXACT else None, 0
        for row, logged in cells[cells.index.isin(list(steps))].items():
            if isinstance(logged, str):
                raise Unreadable("no_number", column=card.column, step=steps[row], row=row + 1, text=repr(logged)[:60])
            if digits and logged == 0:
                zeros += 1
                continue
            rows.append((card.metric, card.column, row, steps[row], logged, *value_and_state(logged, card.factor)))
        if digits and zeros:
            notes.append(sentence("rounded_zeros", column=card.column, decimals=digits, count=zeros, least=0.5 * 10**-digits))
    names = ["metric", "column", "row", "step", "logged", "value", "state"]
    return pd.DataFrame(rows, columns=names, dtype=object).astype({"row": int, "step": int}), notes


def _parts(cells: pd.DataFrame) -> dict[int, int]:
    """Row -> number of its part. A part begins where a metric is logged at a step below its last one; rows of other metrics may come
    late."""
    parts, latest, part = dict[int, int](), dict[str, int](), 0
    for row, logged in groupby(cells.sort_values("row")[["row", "step", "metric"]].to_numpy(), lambda cell: cell[0]):
        steps = {metric: step for _, step, metric in logged}
        if any(step < latest.get(metric, step) for metric, step in steps.items()):
            part, latest = part + 1, {}
        latest |= steps
        parts[row] = part
    return parts


def _check_resumes(cells: pd.DataFrame, starts: set[int]) -> None:
    """A resumed run trains steps again and logs them again; a new file (`starts`) is a program that began anew. Raises Unreadable for a
    part that does neither, unless it is the last one and ends before it comes to a logged step: its rows are only out of order."""
    last_part = cells["part"].max()
    if last_part > MOST_RESUMES:
        raise Unreadable("many_resumes", count=last_part, most=MOST_RESUMES)
    for part in range(1, last_part + 1):
        mine, before = cells[cells["part"] == part], cells[cells["part"] < part]
        begins, previous = mine["row"].min(), cells.loc[cells["part"] == part - 1, "row"].min()
        if len(mine.merge(before, on=["metric", "step"])) or any(previous < start <= begins for start in starts):
            continue
        both = before.merge(mine.groupby("metric")["step"].agg(["min", "max"]), on="metric")
        if part < last_part or both["step"].between(both["min"], both["max"]).any():
            last, step = before.loc[before["row"].idxmax(), "step"], mine.loc[mine["row"].idxmin(), "step"]
            raise Unreadable("no_order", row=begins + 1, last=last, step=step)


def _check_one_value_a_step(cells: pd.DataFrame) -> None:
    """Raises Unreadable when most steps of a column have several values that differ: the log does not say which of them is the run's."""
    values = cells.assign(text=cells["logged"].map(repr)).groupby(["part", "step"], sort=False)["text"]
    counts = values.nunique()
    several = counts[counts > 1]
    if len(several) > len(values) / 2 and len(cells) - len(values) > 1:
        step, few = several.index[0][1], ", ".join(values.get_group(several.index[0])[:3])
        raise Unreadable("several_values", column=cells["column"].iloc[0], several=len(several), count=len(values), few=few, step=step)


def _order_notes(log: Log, cells: pd.DataFrame, distinct: list[int], unplaced: int, target: int) -> Iterator[str]:
    """Where the log breaks off, is resumed, begins and ends. `unplaced`: rows with a metric and no step."""
    if log.cut:
        yield sentence("cut", cut=log.cut)
    if unplaced:
        yield sentence("unplaced", count=unplaced)
    parts = cells.groupby("part")["step"].agg(["min", "max"])
    for part in parts.index[1:]:
        start = parts.loc[part, "min"]
        anew = ", the first one: started anew, or another run in the same log" if start <= parts.loc[0, "min"] else ""
        yield sentence("resumed", last=parts.loc[part - 1, "max"], step=start, anew=anew)
    planned = log.settings.get("max_steps")
    if isinstance(planned, int) and planned > 0 and planned != target:
        yield sentence("planned", planned=planned, target=target)
    if distinct[-1] > target:
        yield sentence("contaminated", last=distinct[-1], target=target)
    if distinct[0] < 1:
        yield sentence("step_0")


def _value_notes(
    log: Log, columns: Mapping[ColumnCard, Any], cells: pd.DataFrame, kept: pd.DataFrame, steps: int, gaps: int
) -> Iterator[str]:
    """What is odd about the values. `kept`: the last cell of each metric and step; `steps` and `gaps`: how many the log has."""
    by_column = cells.groupby("column", sort=False)
    again = by_column.size() - kept.groupby("column", sort=False).size()
    if again.any():
        yield sentence("again", counts=_counted(again[again > 0]))
    huge = kept[(kept["state"] == "nonfinite") & kept["logged"].map(lambda cell: cell is not None and math.isfinite(cell))]
    if len(huge):
        yield sentence("huge", largest=LARGEST, counts=_counted(huge.groupby("column", sort=False).size()))
    for card in columns:
        yield from _share_note(card, kept[(kept["metric"] == card.metric) & (kept["state"] == "value")])
    fewer = [f"`{column}` at {count} of {steps}" for column, count in by_column["step"].nunique().items() if count < steps]
    if fewer:
        yield sentence("sparse", columns=shortened(fewer))
    yield from _merged_names(log)
    if gaps > steps / 10 and gaps > FEW:  # W&B's `history()` and its exports pick 500 rows or so
        yield sentence("uneven", gaps=gaps, distances=steps - 1)


def _counted(counts: pd.Series[Any]) -> str:
    return shortened([f"`{column}` {count}" for column, count in counts.items()])


def _share_note(card: ColumnCard, values: pd.DataFrame) -> Iterator[str]:
    """A sentence for values of a share that no share can have. Raises Unreadable when most are so: the unit is another."""
    meaning = metric_named(card.metric)
    beyond = values[~values["value"].astype(float).between(-_ROUNDING, 1 + _ROUNDING)]
    if meaning is None or not meaning.share or beyond.empty:
        return
    names, first = {"metric": card.metric, "column": card.column}, {"first": beyond["value"].iloc[0], "step": beyond["step"].iloc[0]}
    note = sentence("beyond_share", **names, count=len(beyond), values=len(values), **first)
    if len(beyond) > len(values) / 2:
        raise Unreadable("per_cent" if card.factor == 1 else "wrong_unit", note=note, **names)
    yield note


def _merged_names(log: Log) -> Iterator[str]:
    """TRL logs each reward function under its `__name__`, and equal names merge: then the total reward is not the sum of its parts, on
    every row that holds them all."""
    matches = {name: match for name in sorted(log.columns) if (match := _PART.fullmatch(name))}
    for prefix in sorted({match["prefix"] or "" for match in matches.values()}):
        parts = [name for name, match in matches.items() if (match["prefix"] or "") == prefix]
        if f"{prefix}reward" not in log.table:
            continue
        cells = log.table[[f"{prefix}reward", *parts]]
        numbers = cells.map(lambda cell: cell if isinstance(cell, float) and math.isfinite(cell) else math.nan).dropna()
        reward, added = numbers.iloc[:, 0], numbers.iloc[:, 1:].sum(axis=1)
        wrong = (reward - added).abs() > _TOLERANCE * reward.abs().clip(lower=1.0)
        if wrong.sum() > len(numbers) / 2:
            names = ", ".join(matches[name]["name"] for name in parts)
            yield sentence("merged", reward=reward[wrong].iloc[0], parts=names, added=added[wrong].iloc[0])
