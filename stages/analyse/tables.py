"""A run's history as analysis needs it: attempts merged, four states of a cell kept apart.

A missing file and a file without rows are both an empty table: a failed run leaves little behind, and that is no error.
Nothing is ever filled in: a metric that was not logged at a step has no row there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.analyse.arrays import Table, Words, read_table
from stages.contracts.history import HISTORY_COLUMNS, HISTORY_SCHEMA
from stages.contracts.observed import Rows, usual_distance
from stages.contracts.series import GRADIENT_METRICS, SKIPPED, Cell, NonFinite, classify

_KINDS = ("value", "nonfinite", "null")


@dataclass(frozen=True)
class Overlap:
    """Rows of an attempt that a later one made again: the later one counts. Steps, both ends included."""

    attempt: str
    by: str
    first: int
    last: int


@dataclass(frozen=True)
class Column:
    """One metric: parallel arrays, in order of steps. `values` is NaN where the state is not `value`."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    kinds: NDArray[np.int8] | None
    """Places in `value`, `nonfinite`, `null`; None when every cell is a value."""

    @property
    def states(self) -> NDArray[np.object_]:
        names = np.array(_KINDS, dtype=object)
        return names[np.zeros(len(self.steps), dtype=np.int8) if self.kinds is None else self.kinds]

    @property
    def bad(self) -> NDArray[np.int64]:
        """Steps that are logged and not finite."""
        return self.steps[:0] if self.kinds is None else self.steps[self.kinds == 1]

    def cells(self) -> tuple[Cell, ...]:
        """The same as plain tuples, with None for what is no finite number."""
        plain = self.values.astype(object)
        plain[np.isnan(self.values)] = None
        return tuple(zip(self.steps.tolist(), plain.tolist(), self.states.tolist(), strict=True))

    def varies(self) -> bool:
        """Whether two cells differ in value or state."""
        if not len(self.values):
            return False
        same = (self.values == self.values[0]) | (np.isnan(self.values) & np.isnan(self.values[0]))
        return not bool(same.all()) or (self.kinds is not None and bool((self.kinds != self.kinds[0]).any()))


class Columns(Mapping[str, Column]):
    """The columns of a table of (metric, step, value) rows, made when one is first asked for: of forty logged metrics, ten are."""

    def __init__(
        self,
        codes: NDArray[Any],
        names: Sequence[str],
        steps: NDArray[np.int64],
        values: NDArray[np.float64],
        kinds: NDArray[np.int8] | None,
        wanted: Collection[str] | None = None,
    ) -> None:
        """Rows in the order of the file; each name has a row. `kinds` as in Column. `wanted`: there are only these columns; None: all."""
        self._codes, self._steps, self._values, self._kinds, self._width = codes, steps, values, kinds, len(names)
        every = sorted(enumerate(names), key=lambda pair: pair[1])
        self._places = {name: code for code, name in every if wanted is None or name in wanted}
        self._made: dict[str, Column] = {}
        self._grid = _is_grid(codes, steps, len(names))
        """Every step has every metric, in one order: columns lie at equal distances."""

    def __getitem__(self, name: str) -> Column:
        if name not in self._made:
            self._made[name] = self._make(self._places[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _make(self, code: int) -> Column:
        if self._grid:
            width = self._width
            first = int(np.flatnonzero(self._codes[:width] == code)[0])
            kinds = None if self._kinds is None else self._kinds[first::width]
            column = Column(self._grid_steps, self._values[first::width].copy(), kinds)
        else:
            rows = self._rows(code)
            column = Column(self._steps[rows], self._values[rows], None if self._kinds is None else self._kinds[rows])
        if column.kinds is not None and not column.kinds.any():
            column = Column(column.steps, column.values, None)
        return column

    @cached_property
    def _grid_steps(self) -> NDArray[np.int64]:
        return self._steps[:: self._width].copy()

    def _rows(self, code: int) -> NDArray[np.int64]:
        """Places of a metric's rows, by rising steps; of rows of one step the last."""
        rows = np.flatnonzero(self._codes == code)
        steps = self._steps[rows]
        if (steps[1:] > steps[:-1]).all():
            return rows
        order = np.argsort(steps, kind="stable")
        rows, steps = rows[order], steps[order]
        last = np.ones(len(rows), dtype=bool)
        last[:-1] = steps[1:] != steps[:-1]
        return rows[last]

    @cached_property
    def odd(self) -> frozenset[str]:
        """Metrics with a cell that is logged and not finite."""
        if self._kinds is None:
            return frozenset()
        codes = set(np.unique(self._codes[self._kinds == 1]).tolist())
        return frozenset(name for name, code in self._places.items() if code in codes and len(self[name].bad))

    @cached_property
    def repeated(self) -> int:
        """Rows of the table that repeat a metric and a step; of those the last one counts."""
        if self._grid or not len(self._steps):
            return 0
        first, width = int(self._steps.min()), self._width
        room = (int(self._steps.max()) - first + 1) * width
        keys = (self._steps - first) * width + self._codes
        if room > 20 * len(keys) + 1_000_000:
            return len(keys) - len(np.unique(keys))
        seen = np.zeros(room, dtype=bool)
        seen[keys] = True
        return len(keys) - int(np.count_nonzero(seen))


def _is_grid(codes: NDArray[Any], steps: NDArray[np.int64], width: int) -> bool:
    """Whether the rows are blocks of one step each, with every metric once and in the same order, steps rising."""
    if not width or len(codes) % width or len(set(codes[:width].tolist())) != width:
        return False
    blocks, order = steps.reshape(-1, width), codes.reshape(-1, width)
    rising = bool((blocks[1:, 0] > blocks[:-1, 0]).all())
    return rising and bool((order == order[0]).all()) and bool((blocks == blocks[:, :1]).all())


@dataclass(frozen=True)
class History:
    """A run's merged history. `card_id` and `attempt` are the file's own metadata, null when there is no file."""

    path: Path
    card_id: str | None
    attempt: str | None
    columns: Columns
    overlaps: tuple[Overlap, ...]
    boundaries: tuple[int, ...]
    """First steps of the attempts that went on after another one."""
    gradient: NonFinite
    bad_steps: frozenset[int]
    last_step: int
    """Highest logged step; 0 when nothing was logged."""
    steps: NDArray[np.int64]
    """All steps at which anything was logged, rising."""
    stride: int

    @property
    def exists(self) -> bool:
        return self.card_id is not None

    @cached_property
    def _rows(self) -> dict[str, Rows]:
        return {}

    def rows(self, metric: str) -> Rows:
        """Finite values that may enter statistics, by rising steps."""
        if metric not in self._rows:
            self._rows[metric] = self._valid(metric)
        return self._rows[metric]

    def _valid(self, metric: str) -> Rows:
        column = self.columns.get(metric)
        if column is None:
            return Rows(np.empty(0, dtype=np.int64), np.empty(0))
        if column.kinds is None and not self.bad_steps:
            return Rows(column.steps, column.values)
        kept = ~np.isnan(column.values)
        if self.gradient.since is not None:
            kept &= column.steps < self.gradient.since
        if self.bad_steps:
            kept &= ~np.isin(column.steps, sorted(self.bad_steps))
        return Rows(column.steps[kept], column.values[kept])

    def values(self, metric: str, first: int, last: int) -> NDArray[np.float64]:
        """Finite values of the steps first..last that may enter statistics, in order."""
        rows = self.rows(metric)
        begin, end = np.searchsorted(rows.steps, (first, last + 1))
        return rows.values[begin:end]


def read_history(path: Path, metrics: Collection[str] | None = None) -> History:
    """Read history.parquet. Raises ArtifactError when the file is broken or of another schema.

    With `metrics`, there are only their columns, and those of the gradient, which decide what may enter statistics. Steps, attempts and
    rows that are repeated are always those of the whole file.
    """
    table, metadata = read_table(path, HISTORY_SCHEMA, HISTORY_COLUMNS, ["attempt", "step", "metric", "value", "state"])
    if table is None:
        none = np.empty(0, dtype=np.int64)
        return History(path, None, None, Columns(none, (), none, np.empty(0), None), (), (), classify((), ()), frozenset(), 0, none, 1)
    table, overlaps, boundaries = merge_attempts(table)
    steps = _distinct(table.numbers["step"])
    columns = _columns(table, None if metrics is None else {*metrics, *GRADIENT_METRICS, SKIPPED})
    bad = _bad_steps(columns)
    return History(
        path=path,
        card_id=metadata.get("octavo.card_id", ""),
        attempt=metadata.get("octavo.attempt"),
        columns=columns,
        overlaps=overlaps,
        boundaries=boundaries,
        gradient=_gradient(columns, bad),
        bad_steps=frozenset(bad),
        last_step=int(steps[-1]) if len(steps) else 0,
        steps=steps,
        stride=usual_distance(steps),
    )


def _distinct(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each step once, rising. Rows come step by step, so most repeats stand side by side and need no sorting."""
    changed = np.ones(len(steps), dtype=bool)
    changed[1:] = steps[1:] != steps[:-1]
    found = steps[changed]
    return found if (found[1:] > found[:-1]).all() else np.unique(found)


def _first_seen(words: Words) -> tuple[NDArray[np.int64], list[str]]:
    """Codes by first appearance of each distinct word, and the words in that order."""
    held, at, inverse = np.unique(words.codes, return_index=True, return_inverse=True)
    merged: dict[str, int] = {}
    places = np.empty(len(held), dtype=np.int64)
    for place in np.argsort(at, kind="stable").tolist():
        name = words.names[held[place]] if held[place] >= 0 else ""
        places[place] = merged.setdefault(name, len(merged))
    return places[inverse], list(merged)


def merge_attempts(table: Table) -> tuple[Table, tuple[Overlap, ...], tuple[int, ...]]:
    """Rows of the trajectory that counts: a later attempt replaces, from its first step on, all that came before. With what was made
    twice, and the first steps of the attempts that went on after another one.

    Attempts are in order of their first row. Rows beyond the later attempt's last step go too: they belong to a trajectory that
    was given up.
    """
    if "attempt" in table.alone or not table.rows:
        return table, (), ()
    codes, names = _first_seen(table.words["attempt"])
    steps = table.numbers["step"]
    firsts = [int(steps[codes == code].min()) for code in range(len(names))]
    kept = np.ones(table.rows, dtype=bool)
    overlaps = []
    for code in range(len(names) - 1):
        by = min(range(code + 1, len(names)), key=lambda later: firsts[later])
        again = (codes == code) & (steps >= firsts[by])
        if again.any():
            overlaps.append(Overlap(names[code], names[by], int(steps[again].min()), int(steps[again].max())))
            kept &= ~again
    left = dict.fromkeys(codes[kept][np.sort(np.unique(codes[kept], return_index=True)[1])].tolist())
    begun = [int(steps[kept & (codes == code)].min()) for code in list(left)[1:]]
    return table if kept.all() else table.kept(kept), tuple(overlaps), tuple(sorted(begun))


def _columns(table: Table, wanted: set[str] | None) -> Columns:
    metric, steps, values = table.text("metric"), table.numbers["step"], table.numbers["value"]
    kinds = None if table.alone.get("state") == "value" else _kinds(table.text("state"))
    finite = np.isfinite(values)
    if kinds is None and not finite.all():
        kinds = np.zeros(len(values), dtype=np.int8)
    if kinds is not None:
        kinds = np.where((kinds == 0) & ~finite, np.int8(1), kinds)  # written by others: NaN under the state `value`
        values = np.where(kinds == 0, values, np.nan)
    codes, names = metric.codes, list(metric.names)
    held = np.zeros(len(names) + 1, dtype=bool)  # the last one: null
    held[codes] = True
    if not held[:-1].all() or held[-1] or len(set(names)) < len(names):
        names = list(dict.fromkeys(name for name, found in zip(metric.names, held[:-1].tolist(), strict=True) if found))
        places = np.array([*(names.index(name) if name in names else -1 for name in metric.names), -1], dtype=np.int32)
        rows = np.flatnonzero(codes >= 0)
        codes, steps, values = places[codes][rows], steps[rows], values[rows]
        kinds = None if kinds is None else kinds[rows]
    return Columns(codes, names, steps, values, kinds, wanted)


def _kinds(states: Words) -> NDArray[np.int8]:
    """Unknown words and null are read as `null`: no number."""
    places = np.array([*(_KINDS.index(name) if name in _KINDS else 2 for name in states.names), 2], dtype=np.int8)
    return places[states.codes]


def _bad_steps(columns: Columns) -> set[int]:
    bad = {step for name in GRADIENT_METRICS if name in columns for step in columns[name].bad.tolist()}
    if SKIPPED in columns:
        bad.update(columns[SKIPPED].steps[columns[SKIPPED].values > 0].tolist())
    return bad


def _gradient(columns: Columns, bad: set[int]) -> NonFinite:
    logged = [columns[name].steps for name in (*GRADIENT_METRICS, SKIPPED) if name in columns]
    if not bad:
        alike = all(steps is logged[0] or np.array_equal(steps, logged[0]) for steps in logged)
        rows = 0 if not logged else len(logged[0]) if alike else len(np.unique(np.concatenate(logged)))
        return NonFinite("none", 0, rows, None, None, None)
    return classify({step for steps in logged for step in steps.tolist()}, bad)
