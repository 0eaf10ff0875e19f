"""What a reader must know of a mapped log: one plain sentence each. Names of columns in them are untrusted text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from stages.contracts.import_card import Gap, ReadCard
from stages.train.imports.cells import LARGEST, NoNumber, number
from stages.train.imports.json_logs import FEW, shortened
from stages.train.imports.log import Log
from stages.train.imports.order import Spread

_PART = re.compile(r"(?P<prefix>.*/)?rewards/(?P<name>[^/]+)/mean")
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Placed:
    """A log whose rows have steps."""

    log: Log
    read: ReadCard
    target: int
    steps: Mapping[int, int]
    """Row of the log -> step."""
    parts: Mapping[int, int]
    """Row of the log -> part of the trajectory."""
    printed: Mapping[int, int]
    """Row -> step of its printed epoch; the same as `steps` for a log with steps."""
    spread: Spread
    unplaced: int
    """Rows with a metric and no step."""
    cells: pd.DataFrame
    """All logged cells (mapping.py)."""
    kept: pd.DataFrame
    """The last one of each metric and step."""
    distinct: tuple[int, ...]
    gaps: tuple[Gap, ...]


def mapping_notes(placed: Placed, again: Mapping[str, int], odd_shares: list[str]) -> Iterator[str]:
    """All notes in the order in which a page shows them. `again`: column -> cells that a later one at the same step replaced."""
    yield from _trajectory(placed)
    yield from _epochs(placed)
    if again:
        counts = shortened([f"`{column}` {count}" for column, count in again.items()])
        yield f"logged again at a step that it held already, so many times: {counts}; the later value counts"
    nonfinite = placed.kept[placed.kept["state"] == "nonfinite"]
    huge = nonfinite[[math.isfinite(cell) for cell in nonfinite["logged"]]]
    if len(huge):
        counts = shortened([f"`{column}` {count}" for column, count in huge.groupby("column", sort=False).size().items()])
        yield f"numbers beyond {LARGEST:g}, which count as not finite: {counts}"
    yield from odd_shares
    logged = placed.cells.groupby("column", sort=False)["step"].nunique()
    fewer = [f"`{column}` at {count} of {len(placed.distinct)}" for column, count in logged.items() if count < len(placed.distinct)]
    if fewer:
        yield f"not logged at every step of the log: {shortened(fewer)}"
    yield from _merged_names(placed.log)
    if len(placed.gaps) > len(placed.distinct) / 10 and len(placed.gaps) > FEW:  # W&B's `history()` and its exports pick 500 rows or so
        of_all = len(placed.distinct) - 1
        yield f"uneven: {len(placed.gaps)} of {of_all} distances between logged steps differ from the usual one, as in a sampled export"


def _trajectory(placed: Placed) -> Iterator[str]:
    log, target = placed.log, placed.target
    if log.cut:
        yield f"cut: {log.cut}; everything before it was read"
    if placed.unplaced:
        yield f"{placed.unplaced} rows hold a metric and no step; they were left out"
    steps = pd.Series(placed.steps, dtype=int).groupby(pd.Series(placed.parts, dtype=int)).agg(["min", "max"])
    for part in steps.index[1:]:
        start = steps.loc[part, "min"]
        anew = ", the first one: started anew, or another run in the same log" if start <= steps.loc[0, "min"] else ""
        yield f"resumed: logged to step {steps.loc[part - 1, 'max']}, then again from step {start}{anew}; the later rows count"
    if log.planned is not None and log.planned != target:
        yield f"the trainer was told to make {log.planned} steps, and the spec says {target}"
    if placed.distinct and placed.distinct[-1] > target:
        yield f"contaminated: the log reaches step {placed.distinct[-1]} of {target}, so a finished run was trained on"
    if placed.distinct and placed.distinct[0] < 1:
        yield "the log has a step 0; octavo counts from 1, so it lies in no window (`counts_from: 0` if it is the first step)"


def _epochs(placed: Placed) -> Iterator[str]:
    if placed.read.epoch is None:
        return
    yield f"the log's index is the epoch, not the step: step = epoch x {placed.read.steps_per_epoch:g}, rounded"
    many, few, within = len(placed.printed), len(set(placed.printed.values())), placed.spread.within
    if placed.spread.tied:
        yield (
            f"of {many} rows that print {few} epochs some find no room up to the next one and share its step; "
            f"the others are spread evenly up to it, within {within} steps"
        )
    elif many > few:
        yield f"{many} rows print {few} epochs: those of one are spread evenly up to the next, so a step is known to within {within} steps"


def _merged_names(log: Log) -> Iterator[str]:
    """TRL logs each reward function under its `__name__`, and equal names merge: then the total reward is not the sum of its parts, on
    every row that holds them all."""
    matches = {name: match for name in log.columns if (match := _PART.fullmatch(name))}
    for prefix in sorted({match["prefix"] or "" for match in matches.values()}):
        parts = sorted(name for name, match in matches.items() if (match["prefix"] or "") == prefix)
        if f"{prefix}reward" not in log.table:
            continue
        numbers = log.table[[f"{prefix}reward", *parts]].map(_finite).dropna()
        whole, added = numbers.iloc[:, 0], numbers.iloc[:, 1:].sum(axis=1)
        wrong = (whole - added).abs() > _TOLERANCE * whole.abs().clip(lower=1.0)
        if wrong.sum() > len(numbers) / 2:
            names = ", ".join(matches[name]["name"] for name in parts)
            yield (
                f"merged: the reward ({whole[wrong].iloc[0]:.4g} in the first such row) is not the sum of its logged parts {names} "
                f"({added[wrong].iloc[0]:.4g}), so reward functions share a name, have weights, or score some completions only: "
                "the parts do not make the whole"
            )


def _finite(cell: object) -> float:
    """The cell as a finite number; NaN for all else."""
    try:
        value = number(cell)
    except NoNumber:
        return math.nan
    return value if value is not None and math.isfinite(value) and cell == cell else math.nan
