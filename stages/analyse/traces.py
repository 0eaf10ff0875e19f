"""A run's history and completions reduced to what findings are made of: the tables of a thousand runs do not fit in memory together."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.analyse.completions import Completions
from stages.analyse.correlated import Wander, neighbours, wander
from stages.analyse.counted import Count, counted
from stages.analyse.tables import History
from stages.analyse.windows import Window
from stages.contracts.batch_means import batches
from stages.contracts.history import gate_columns
from stages.contracts.magnitude import unit


class Rows(NamedTuple):
    """The logged values of a metric in one window that may enter statistics."""

    n: int
    mean: float
    """With numpy's pairwise sum."""
    exact: float
    """With a correctly rounded sum, as statistics need it; its last digits may differ."""
    deviation: float
    """Sample standard deviation; 0 of a single value."""
    batches: Sequence[float]
    """Batch means; none of fewer than four values."""

    @classmethod
    def of(cls, values: Sequence[float] | NDArray[np.float64]) -> Rows:
        """Raises ValueError without values."""
        if not len(values):
            raise ValueError("rows of nothing")
        numbers = np.asarray(values, dtype=np.float64)
        one = unit((float(numbers.min()), float(numbers.max())))
        if one != 1:
            own = cls.of(numbers / one)
            return cls(own.n, own.mean * one, own.exact * one, own.deviation * one, array("d", (batch * one for batch in own.batches)))
        plain = numbers.tolist()
        exact = math.fsum(plain) / len(plain)
        return cls(len(plain), float(numbers.mean()), exact, _deviation(numbers, exact), array("d", batches(plain)))


def _deviation(values: NDArray[np.float64], centre: float) -> float:
    """Of many values of a usual size: the squares are numpy's, the sum is still exact."""
    if (values == values[0]).all():
        return 0.0
    away = values - centre
    return math.sqrt(math.fsum((away * away).tolist()) / (len(values) - 1))


class GateCounts(NamedTuple):
    """What a gate said of the completions in one window that may enter statistics."""

    completions: int
    passed: int
    failed: int
    unknown: int

    @property
    def reached(self) -> int:
        return self.passed + self.failed + self.unknown


@dataclass(frozen=True)
class Trace:
    """What is kept of one run's tables. `rows` by metric and statistic (`initial`, `final`), None: no value may enter statistics;
    `correlation` of neighbouring rows by metric (see correlated.py); `gates` by gate and statistic. Names that nobody asked for when the
    run was read are in none of them."""

    path: Path
    attempt: str | None
    exists: bool
    logged: bool
    """Whether the history has any row."""
    last_step: int
    stride: int
    since: int | None
    """First step of a gradient that stays not finite to the end of the log: the valid range ends before it."""
    rows: Mapping[tuple[str, str], Rows | None]
    correlation: Mapping[str, float | None]
    wander: Mapping[str, Wander | None]
    """Of windows as long as the shorter of the two."""
    gates: Mapping[tuple[str, str], GateCounts]
    counts: Mapping[tuple[str, str], Count | None]
    """By metric and statistic, of metrics that are shares of completions: what they are a share of (see counted.py)."""


def reduce(
    history: History, completions: Completions, metrics: Collection[str], gates: Iterable[str], windows: Mapping[str, Window]
) -> Trace:
    """`windows` by statistic. Completions have a status column a gate."""
    rows: dict[tuple[str, str], Rows | None] = {}
    said: dict[tuple[str, str], GateCounts] = {}
    counts: dict[tuple[str, str], Count | None] = {}
    for statistic, window in windows.items():
        for name in metrics:
            values = history.values(name, window.first, window.last)
            rows[name, statistic] = Rows.of(values) if len(values) else None
        inside = _inside(completions, history, window)
        counts |= {(name, statistic): count for name, count in counted(inside, metrics).items()}
        for gate in gates:
            said[gate, statistic] = GateCounts(inside.rows, *inside.text(gate_columns(gate)[0]).count("pass", "fail", "unknown"))
    return Trace(
        path=history.path,
        attempt=history.attempt,
        exists=history.exists,
        logged=len(history.steps) > 0,
        last_step=history.last_step,
        stride=history.stride,
        since=history.gradient.since,
        rows=rows,
        correlation={name: neighbours(history.rows(name).values) for name in metrics},
        wander={name: _wander(history, name, [rows[name, statistic] for statistic in windows]) for name in metrics},
        gates=said,
        counts=counts,
    )


def _wander(history: History, name: str, windows: Sequence[Rows | None]) -> Wander | None:
    return wander(history.rows(name).values, min(rows.n if rows else 0 for rows in windows))


def _inside(completions: Completions, history: History, window: Window) -> Completions:
    last = window.last if history.gradient.since is None else min(window.last, history.gradient.since - 1)
    steps = completions.numbers["step"]
    kept = (steps >= window.first) & (steps <= last)
    if history.bad_steps:
        kept &= ~np.isin(steps, sorted(history.bad_steps))
    return completions.kept(kept)
