"""A run's history as analysis needs it: attempts merged, four states of a cell kept apart.

A missing file and a file without rows are both an empty table: a failed run leaves little behind, and that is no error.
Nothing is ever filled in: a metric that was not logged at a step has no row there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.analyse.arrays import Table, Words, read_table
from stages.analyse.columns import KINDS, Columns, ScatteredColumns, told
from stages.analyse.indexed_columns import IndexedColumns
from stages.contracts.artifact import ArtifactError
from stages.contracts.history import HISTORY_COLUMNS, HISTORY_SCHEMA
from stages.contracts.history_index import INDEX, SORTED_BY, HistoryIndex
from stages.contracts.observed import SILENT, Rows, usual_distance
from stages.contracts.series import GRADIENT_METRICS, SKIPPED, NonFinite, classify


@dataclass(frozen=True)
class Overlap:
    """Rows of an attempt that a later one made again: the later one counts. Steps, both ends included."""

    attempt: str
    by: str
    first: int
    last: int


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

    @cached_property
    def unscored(self) -> NDArray[np.int64]:
        """Steps at which no completion was scored (see Observed)."""
        reward = self.columns.get("reward") or self.columns.get("reward_std")
        return np.empty(0, dtype=np.int64) if reward is None else reward.null

    def _valid(self, metric: str) -> Rows:
        column = self.columns.get(metric)
        if column is None:
            return Rows(np.empty(0, dtype=np.int64), np.empty(0))
        unscored = self.unscored if metric == SILENT else ()
        if column.kinds is None and not self.bad_steps and not len(unscored):
            return Rows(column.steps, column.values)
        values = column.values
        if len(unscored):  # where no completion was scored, no group has a signal, whatever was logged (TRL logs 0.0)
            values = np.where(np.isin(column.steps, unscored) & (values < 1.0), 1.0, values)
        kept = ~np.isnan(values)
        if self.gradient.since is not None:
            kept &= column.steps < self.gradient.since
        if self.bad_steps:
            kept &= ~np.isin(column.steps, sorted(self.bad_steps))
        return Rows(column.steps[kept], values[kept])

    def values(self, metric: str, first: int, last: int) -> NDArray[np.float64]:
        """Finite values of the steps first..last that may enter statistics, in order."""
        rows = self.rows(metric)
        begin, end = np.searchsorted(rows.steps, (first, last + 1))
        return rows.values[begin:end]


def read_history(path: Path, metrics: Collection[str] | None = None) -> History:
    """Read history.parquet. Raises ArtifactError when the file is broken or of another schema.

    With `metrics`, there are only their columns, and those of gradient and reward, which decide what may enter statistics. Steps, attempts
    and rows that are repeated are always those of the whole file.
    """
    table, metadata = read_table(path, HISTORY_SCHEMA, HISTORY_COLUMNS, _needed)
    if table is None:
        nothing = IndexedColumns(HistoryIndex(metrics=(), steps=()), np.empty(0), None)
        return History(path, None, None, nothing, (), (), classify((), ()), frozenset(), 0, nothing.every_step, 1)
    decides = {*GRADIENT_METRICS, SKIPPED, *(("reward", "reward_std") if SILENT in (metrics or ()) else ())}
    wanted = None if metrics is None else {*metrics, *decides}
    overlaps: tuple[Overlap, ...] = ()
    boundaries: tuple[int, ...] = ()
    columns: Columns
    if "step" not in table.numbers:
        columns = _indexed(path, metadata[INDEX], table, wanted)
    else:
        table, overlaps, boundaries = merge_attempts(table)
        columns = _scattered(table, wanted)
    bad, steps = _bad_steps(columns), columns.every_step
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


def _needed(metadata: Mapping[str, str], sorted_by: Sequence[str]) -> Sequence[str]:
    """Of a table with an index, metrics, steps and its one attempt are known. One that another program sorted anew has lost its own."""
    known = INDEX in metadata and list(sorted_by) == list(SORTED_BY)
    return ("value", "state") if known else ("attempt", "step", "metric", "value", "state")


def _indexed(path: Path, text: str, table: Table, wanted: set[str] | None) -> Columns:
    try:
        index = HistoryIndex.read(text, table.rows)
    except ValueError as error:
        raise ArtifactError(
            path, str(error), why="the file was written or changed by another program", fix="dvc checkout, or dvc repro"
        ) from None
    return IndexedColumns(index, table.numbers["value"], _kinds(table), wanted)


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


def _scattered(table: Table, wanted: set[str] | None) -> Columns:
    metric, steps, values = table.text("metric"), table.numbers["step"], table.numbers["value"]
    values, kinds = told(values, _kinds(table))
    codes, names = metric.codes, list(metric.names)
    held = np.zeros(len(names) + 1, dtype=bool)  # the last one: null
    held[codes[: len(names)]] = True
    if not held[:-1].all() or codes.min(initial=0) < 0:  # in a complete log the first rows have every name: the others tell no more
        held[codes] = True
    if not held[:-1].all() or held[-1] or len(set(names)) < len(names):
        names = list(dict.fromkeys(name for name, found in zip(metric.names, held[:-1].tolist(), strict=True) if found))
        places = np.array([*(names.index(name) if name in names else -1 for name in metric.names), -1], dtype=np.int32)
        rows = np.flatnonzero(codes >= 0)
        codes, steps, values = places[codes][rows], steps[rows], values[rows]
        kinds = None if kinds is None else kinds[rows]
    return ScatteredColumns(codes, names, steps, values, kinds, wanted)


def _kinds(table: Table) -> NDArray[np.int8] | None:
    """As in Column. Unknown words and null are read as `null`: no number."""
    if table.alone.get("state") == "value":
        return None
    states = table.text("state")
    places = np.array([*(KINDS.index(name) if name in KINDS else 2 for name in states.names), 2], dtype=np.int8)
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
