"""What a reader must know of a mapped log: one plain sentence each. Names of columns in them are untrusted text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import pandas as pd

from stages.train.imports.log import FEW, LARGEST, Log, NoNumber, number, shortened

_PART = re.compile(r"(?P<prefix>.*/)?rewards/(?P<name>[^/]+)/mean")
_TOLERANCE = 1e-4


def order_notes(log: Log, cells: pd.DataFrame, distinct: Sequence[int], unplaced: int, target: int) -> Iterator[str]:
    """Where the log breaks off, is resumed, begins and ends. `cells`: all logged cells with a step; `distinct`: logged steps, in order;
    `unplaced`: rows with a metric and no step."""
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


def mapping_notes(log: Log, cells: pd.DataFrame, kept: pd.DataFrame, odd_shares: Sequence[str], steps: int, gaps: int) -> Iterator[str]:
    """What is odd about the values. `kept`: the last cell of each metric and step; `steps` and `gaps`: how many the log has."""
    logged = cells.groupby("column", sort=False)
    again = logged.size() - kept.groupby("column", sort=False).size()
    if again.any():
        counts = shortened([f"`{column}` {count}" for column, count in again.items() if count])
        yield f"logged again at a step that it held already, so many times: {counts}; the later value counts"
    nonfinite = kept[kept["state"] == "nonfinite"]
    huge = nonfinite[[math.isfinite(cell) for cell in nonfinite["logged"]]]
    if len(huge):
        counts = shortened([f"`{column}` {count}" for column, count in huge.groupby("column", sort=False).size().items()])
        yield f"numbers beyond {LARGEST:g}, which count as not finite: {counts}"
    yield from odd_shares
    fewer = [f"`{column}` at {count} of {steps}" for column, count in logged["step"].nunique().items() if count < steps]
    if fewer:
        yield f"not logged at every step of the log: {shortened(fewer)}"
    yield from _merged_names(log)
    if gaps > steps / 10 and gaps > FEW:  # W&B's `history()` and its exports pick 500 rows or so
        yield f"uneven: {gaps} of {steps - 1} distances between logged steps differ from the usual one, as in a sampled export"


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
