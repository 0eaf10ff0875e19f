"""The order of a log's steps: a resume, which logs steps again; rows in no order; rows of several runs; printed epochs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import pandas as pd

from stages.train.imports.log import Unreadable

_FEW_PARTS = 5
_FEW_VALUES = 3


def parts_of(rows: Mapping[str, Sequence[int]], steps: Mapping[int, int], exact: bool, starts: Collection[int]) -> dict[int, int]:
    """Row -> number of its part. A part begins where a metric is logged at a step below its last one; rows of other metrics may come
    late. `rows`: metric -> rows that hold it and have a step; `exact`: whether steps tell rows apart, which printed epochs do not.
    Raises Unreadable for steps in no order."""
    if not any(after < before for mine in rows.values() for before, after in pairwise(steps[row] for row in mine)):
        return dict.fromkeys(steps, 0)
    metrics_of: dict[int, list[str]] = {}
    for metric, mine in rows.items():
        for row in mine:
            metrics_of.setdefault(row, []).append(metric)
    parts: dict[int, int] = {}
    logged: list[dict[str, list[int]]] = [{}]
    begins = [0]
    for row in sorted(metrics_of):
        if any(metric in logged[-1] and steps[row] < logged[-1][metric][-1] for metric in metrics_of[row]):
            logged.append({})
            begins.append(row)
        for metric in metrics_of[row]:
            logged[-1].setdefault(metric, []).append(steps[row])
        parts[row] = len(logged) - 1
    if exact:
        _check_resumes(logged, begins, steps, starts)
    return parts


def _check_resumes(
    logged: Sequence[Mapping[str, Sequence[int]]], begins: Sequence[int], steps: Mapping[int, int], starts: Collection[int]
) -> None:
    """A resumed run trains steps again and logs them again. Rows that go back, pass over logged steps and log none of them again are
    only out of order; so are many that go back when no step is logged twice."""
    before: dict[str, set[int]] = {}
    any_repeated = False
    for place, part in enumerate(logged):
        is_repeated = any(before.get(metric, set()).intersection(mine) for metric, mine in part.items())
        is_repeated |= any(begins[place - 1] < start <= begins[place] for start in starts)  # a new file: a program began anew
        any_repeated |= is_repeated
        if not is_repeated and any(mine[0] <= step <= mine[-1] for metric, mine in part.items() for step in before.get(metric, ())):
            raise Unreadable(_out_of_order(begins[place], steps))
        if place >= _FEW_PARTS and not any_repeated:
            raise Unreadable(_out_of_order(begins[1], steps))
        for metric, mine in part.items():
            before.setdefault(metric, set()).update(mine)


def _out_of_order(row: int, steps: Mapping[int, int]) -> str:
    last = max(earlier for earlier in steps if earlier < row)
    return (
        f"the steps are in no order: row {row + 1} of the log goes back from step {steps[last]} to {steps[row]}, "
        "and the steps between are not logged again, so it is no resume: "
        "sort rows that are only out of order by step; of a run that was resumed there, "
        f"delete the rows above that one from step {steps[row]} on"
    )


def check_one_value_a_step(cells: pd.DataFrame) -> None:
    """Raises Unreadable when most steps of a column have several values that differ: the log does not say which of them is the run's.
    `cells`: column, part, step, logged (the number, None for null)."""
    values = cells.assign(text=cells["logged"].map(repr)).groupby(["part", "step"], sort=False)
    several = values["text"].nunique().loc[lambda count: count > 1]
    is_most = len(several) >= _FEW_VALUES and len(several) > len(values) / 2
    if not is_most and not (len(values) == 1 and len(several) and len(cells) >= _FEW_VALUES):
        return
    part, step = several.index[0]
    first = list(values.get_group((part, step))["logged"])
    few = ", ".join("null" if value is None else f"{value:.6g}" for value in first[:3]) + (", ..." if len(first) > 3 else "")
    raise Unreadable(
        f"`{cells['column'].iloc[0]}` has several values at {len(several)} of {len(values)} steps ({few} at step {step}), so the log holds "
        "several runs or processes, or several rows a step: "
        "give each run a log of its own with one row a step (of micro-batches their mean, as pandas' groupby('step').mean() makes it; "
        "without the rows of an evaluation)"
    )


class Spread(NamedTuple):
    steps: dict[int, int]
    """Row -> step."""
    within: int
    """A row's true step is nearer than this to the one it was given; 0 when every printed epoch has one row."""
    tied: bool
    """More rows print one epoch than there are steps up to the next: these share a step."""


def spread_epochs(steps: dict[int, int], target: int) -> Spread:
    """Rows of one printed epoch, evenly from its step up to the next printed one; those of the last one are given as much room as the
    narrowest before it had, within the target. Rows that find no room keep their step. `steps`: row of the log -> rounded step."""
    blocks = [(step, [row for row, _ in rows]) for step, rows in groupby(sorted(steps.items()), key=lambda row: row[1])]
    if all(len(rows) == 1 for _, rows in blocks):
        return Spread(steps, 0, False)
    widths = [after - before for (before, _), (after, _) in pairwise(blocks) if after > before]
    placed: dict[int, int] = {}
    is_tied = False
    for (step, rows), (following, _) in zip(blocks, [*blocks[1:], (0, [])], strict=True):
        last_room = min([*widths, max(1, target - step + 1)]) if widths else 1
        room = following - step if following > step else last_room
        fits = len(rows) <= room
        is_tied |= not fits
        placed |= {row: step + (place * room // len(rows) if fits else 0) for place, row in enumerate(rows)}
    return Spread(placed, max(widths, default=0), is_tied)
