"""The order of a log's steps: a resume, which logs steps again; rows in no order; rows of several runs; printed epochs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby, pairwise

import pandas as pd

from stages.train.imports.log import Unreadable


def parts_of(cells: pd.DataFrame) -> dict[int, int]:
    """Row -> number of its part. A part begins where a metric is logged at a step below its last one; rows of other metrics may come
    late. `cells`: one row a logged cell, with row, step and metric."""
    parts: dict[int, int] = {}
    latest: dict[str, int] = {}
    part = 0
    for row, logged in groupby(
        cells.sort_values("row")[["row", "step", "metric"]].itertuples(index=False, name=None), lambda cell: cell[0]
    ):
        steps = {metric: step for _, step, metric in logged}
        if any(step < latest.get(metric, 0) for metric, step in steps.items()):
            part, latest = part + 1, {}
        latest |= steps
        parts[row] = part
    return parts


def check_resumes(cells: pd.DataFrame, starts: Collection[int]) -> None:
    """A resumed run trains steps again and logs them again; a new file (`starts`) is a program that began anew. Raises Unreadable for a
    part that does neither, unless it is the last one and ends before it comes to a logged step: its rows are only out of order."""
    last_part = cells["part"].max()
    for part in range(1, last_part + 1):
        mine, before = cells[cells["part"] == part], cells[cells["part"] < part]
        begins, previous = mine["row"].min(), cells.loc[cells["part"] == part - 1, "row"].min()
        is_repeated = len(mine.merge(before, on=["metric", "step"])) or any(previous < start <= begins for start in starts)
        both = before.merge(mine.groupby("metric")["step"].agg(["min", "max"]), on="metric")
        if is_repeated or (part == last_part and not both["step"].between(both["min"], both["max"]).any()):
            continue
        last = before.loc[before["row"].idxmax(), "step"]
        step = mine.loc[mine["row"].idxmin(), "step"]
        raise Unreadable(
            f"the steps are in no order: row {begins + 1} of the log goes back from step {last} to {step}, "
            "and the steps between are not logged again, so it is no resume: "
            "sort rows that are only out of order by step; of a run that was resumed there, "
            f"delete the rows above that one from step {step} on"
        )


def check_one_value_a_step(cells: pd.DataFrame) -> None:
    """Raises Unreadable when most steps of a column have several values that differ: the log does not say which of them is the run's.
    `cells`: column, part, step, logged (the number, None for null)."""
    values = cells.assign(text=cells["logged"].map(repr)).groupby(["part", "step"], sort=False)
    several = values["text"].nunique().loc[lambda count: count > 1]
    if len(several) <= len(values) / 2 or len(cells) - len(values) < 2:
        return
    step = several.index[0][1]
    few = ", ".join(values.get_group(several.index[0])["text"][:3])
    raise Unreadable(
        f"`{cells['column'].iloc[0]}` has several values at {len(several)} of {len(values)} steps ({few} at step {step}), so the log holds "
        "several runs or processes, or several rows a step: "
        "give each run a log of its own with one row a step (of micro-batches their mean, without the rows of an evaluation)"
    )


def spread_epochs(steps: Mapping[int, int], target: int) -> tuple[dict[int, int], int]:
    """Rows of one printed epoch, evenly from its step up to the next printed one; those of the last one are given as much room as the
    narrowest before it had, within the target. `steps`: row of the log -> rounded step. Returns row -> step, and how far from it a row's
    true step may be: 0 when every printed epoch has one row."""
    blocks = [(step, [row for row, _ in rows]) for step, rows in groupby(sorted(steps.items()), key=lambda row: row[1])]
    widths = [after - before for (before, _), (after, _) in pairwise(blocks) if after > before]
    if len(blocks) == len(steps):
        return dict(steps), 0
    last_room = min([*widths, max(1, target - blocks[-1][0] + 1)]) if widths else 1
    rooms = [after - before if after > before else last_room for (before, _), (after, _) in pairwise(blocks)]
    spread: dict[int, int] = {}
    for (step, rows), room in zip(blocks, [*rooms, last_room], strict=True):
        spread |= {row: step + place * room // len(rows) for place, row in enumerate(rows)}
    return spread, max(widths, default=0)
