"""The wide frame of cells, those in it that hold no number, how they lie, and metrics that are derived from cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from stages.contracts.formulas import read_formula
from stages.contracts.history import LARGEST

NOT_FINITE, NULL = np.inf, -np.inf
"""Cells that were logged and hold no number: NaN or Inf, and "does not apply"."""
PERSISTENT_STEPS = 3
"""This many last rows in a row without a finite value are a persistent failure; fewer are transient."""


class NonFinite(NamedTuple):
    """The k steps of n logged ones at which a metric is not finite. `since`: the first step from which no row is finite, to the end."""

    k: int
    n: int
    first: int
    last: int
    since: int | None
    knowable: int
    """Step at which a live detector could first have known."""

    @classmethod
    def classify(cls, bad: pd.Series) -> NonFinite | None:
        """`bad`: whether each logged step is not finite. None when all are finite."""
        steps = bad.index[bad]
        if steps.empty:
            return None
        tail = int((~bad[::-1]).cumsum().eq(0).sum())
        lasts = tail >= PERSISTENT_STEPS
        since = int(bad.index[-tail]) if lasts else None
        knowable = int(bad.index[len(bad) - tail + PERSISTENT_STEPS - 1]) if lasts else int(steps[0])
        return cls(len(steps), len(bad), int(steps[0]), int(steps[-1]), since, knowable)


def derive(steps: pd.DataFrame, name: str, text: str) -> None:
    """Add a derived metric at the steps that logged all of its metrics. It is not finite where one of them is not, and null where one is
    null or the formula has no value: nothing can be divided by zero."""
    formula = read_formula(text)
    if not set(formula.metrics) <= set(steps):
        return
    cells = steps[list(formula.metrics)].dropna()
    finite = cells[np.isfinite(cells).all(axis=1)]
    with np.errstate(all="ignore"):
        values = formula.value(finite)
    derived = pd.Series(np.where(cells.eq(NOT_FINITE).any(axis=1), NOT_FINITE, NULL), index=cells.index)
    derived[finite.index] = values.where(values.abs() <= LARGEST, NULL)
    steps[name] = derived


def wide_frame(rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The wide frame, and how many rows repeat a metric and a step. Other writers' NaN under `value` and numbers under `null` are told
    apart by state and value together; an unknown state is read as null."""
    rows = rows[rows["metric"].notna()]
    value, state = rows["value"].to_numpy(dtype=float), rows["state"]
    is_value = (state == "value").to_numpy()
    cells = np.where(is_value | (state == "nonfinite").to_numpy(), NOT_FINITE, NULL)
    cells = np.where(is_value & (np.abs(value) <= LARGEST), value, cells)
    metrics, names = pd.factorize(rows["metric"])
    places, steps = pd.factorize(rows["step"], sort=True)
    wide = np.full((len(steps), len(names)), np.nan)
    wide[places, metrics] = cells  # of rows that repeat a metric and a step the last one counts
    frame = pd.DataFrame(wide, index=pd.Index(np.asarray(steps, dtype=int), name="step"), columns=[str(name) for name in names])
    return frame.sort_index(axis=1), len(rows) - int((~np.isnan(wide)).sum())
