"""History, completions and evaluation tables as analysis needs them: attempts merged, four states of a cell kept apart.

A missing file and a file without rows are both an empty table: a failed run leaves little behind, and that is no error.
Nothing is ever filled in: a metric that was not logged at a step has no row there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.contracts.artifact import ArtifactError
from stages.contracts.history import COMPLETIONS_SCHEMA, EVALUATION_SCHEMA, HISTORY_COLUMNS, HISTORY_SCHEMA, gate_columns
from stages.contracts.series import GRADIENT_METRICS, SKIPPED, Cell, NonFinite, classify, stride

_REPEATING = ("attempt", "metric", "state")


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
    states: NDArray[np.object_]

    def cells(self) -> tuple[Cell, ...]:
        """The same as plain tuples, with None for what is no finite number."""
        plain = self.values.astype(object)
        plain[np.isnan(self.values)] = None
        return tuple(zip(self.steps.tolist(), plain.tolist(), self.states.tolist(), strict=True))


@dataclass(frozen=True)
class History:
    """A run's merged history. `card_id` and `attempt` are the file's own metadata, null when there is no file."""

    path: Path
    card_id: str | None
    attempt: str | None
    columns: Mapping[str, Column]
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
    repeated: int = 0
    """Rows that repeat a metric and a step within one attempt; the last of them counts."""

    @property
    def exists(self) -> bool:
        return self.card_id is not None

    def values(self, metric: str, first: int, last: int) -> NDArray[np.float64]:
        """Finite values of the steps first..last that may enter statistics, in order."""
        column = self.columns.get(metric)
        if column is None:
            return np.empty(0)
        if self.gradient.since is not None:
            last = min(last, self.gradient.since - 1)
        kept = (column.steps >= first) & (column.steps <= last) & ~np.isnan(column.values)
        if self.bad_steps:
            kept &= ~np.isin(column.steps, sorted(self.bad_steps))
        return column.values[kept]


def read_history(path: Path, metrics: Collection[str] | None = None) -> History:
    """Read history.parquet. Raises ArtifactError when the file is broken or of another schema.

    With `metrics`, only their columns are made, and those of the gradient, which decide what may enter statistics; `repeated` then counts
    rows of these. Steps and attempts are always those of the whole file.
    """
    frame, metadata = _read(path, HISTORY_SCHEMA, HISTORY_COLUMNS, ["attempt", "step", "metric", "value", "state"])
    if frame is None:
        return History(path, None, None, {}, (), (), classify((), ()), frozenset(), 0, np.empty(0, dtype=np.int64), 1)
    frame, overlaps = merge_attempts(frame)
    steps, boundaries = _distinct(frame["step"].to_numpy(dtype=np.int64)), _boundaries(frame)
    if metrics is not None:
        frame = frame[frame["metric"].isin({*metrics, *GRADIENT_METRICS, SKIPPED})]
    columns, repeated = _columns(frame)
    bad = _bad_steps(columns)
    logged = {int(step) for name in (*GRADIENT_METRICS, SKIPPED) if name in columns for step in columns[name].steps}
    return History(
        path=path,
        card_id=metadata.get("octavo.card_id", ""),
        attempt=metadata.get("octavo.attempt"),
        columns=columns,
        overlaps=overlaps,
        boundaries=boundaries,
        gradient=classify(logged, bad),
        bad_steps=frozenset(bad),
        last_step=int(steps[-1]) if len(steps) else 0,
        steps=steps,
        stride=stride(steps.tolist()),
        repeated=repeated,
    )


def _distinct(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each step once, rising. Rows come step by step, so most repeats stand side by side and need no sorting."""
    changed = np.ones(len(steps), dtype=bool)
    changed[1:] = steps[1:] != steps[:-1]
    return np.unique(steps[changed])


def merge_attempts(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Overlap, ...]]:
    """Rows of the trajectory that counts: a later attempt replaces, from its first step on, all that came before.

    Attempts are in order of their first row. Rows beyond the later attempt's last step go too: they belong to a trajectory that
    was given up.
    """
    codes, names = pd.factorize(frame["attempt"])
    if len(names) <= 1:
        return frame, ()
    steps = frame["step"].to_numpy()
    firsts = [int(steps[codes == code].min()) for code in range(len(names))]
    kept = np.ones(len(frame), dtype=bool)
    overlaps = []
    for code in range(len(names) - 1):
        by = min(range(code + 1, len(names)), key=lambda later: firsts[later])
        again = (codes == code) & (steps >= firsts[by])
        if again.any():
            overlaps.append(Overlap(str(names[code]), str(names[by]), int(steps[again].min()), int(steps[again].max())))
            kept &= ~again
    return frame[kept], tuple(overlaps)


def _boundaries(frame: pd.DataFrame) -> tuple[int, ...]:
    codes, names = pd.factorize(frame["attempt"])
    steps = frame["step"].to_numpy()
    return tuple(sorted(int(steps[codes == code].min()) for code in range(1, len(names))))


def _columns(frame: pd.DataFrame) -> tuple[dict[str, Column], int]:
    """One Column a metric, and how many rows repeat a (metric, step): of those the last one counts."""
    codes, names = pd.factorize(frame["metric"])
    steps = frame["step"].to_numpy(dtype=np.int64)
    order = np.lexsort((np.arange(len(frame)), steps, codes))
    codes, steps = codes[order], steps[order]
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (codes[1:] != codes[:-1]) | (steps[1:] != steps[:-1])
    order, codes, steps = order[last], codes[last], steps[last]
    values = frame["value"].to_numpy(dtype=np.float64)[order]
    states = np.asarray(frame["state"], dtype=object)[order]
    odd = (states == "value") & ~np.isfinite(values)  # written by others: NaN under the state `value`
    states[odd] = "nonfinite"
    values = np.where(states == "value", values, np.nan)
    edges = np.searchsorted(codes, np.arange(len(names) + 1))
    slices = {str(name): slice(edges[code], edges[code + 1]) for code, name in enumerate(names)}
    return {name: Column(steps[part], values[part], states[part]) for name, part in sorted(slices.items())}, int((~last).sum())


def _bad_steps(columns: Mapping[str, Column]) -> set[int]:
    bad: set[int] = set()
    for name in GRADIENT_METRICS:
        if name in columns:
            bad.update(columns[name].steps[columns[name].states == "nonfinite"].tolist())
    if SKIPPED in columns:
        bad.update(columns[SKIPPED].steps[columns[SKIPPED].values > 0].tolist())
    return bad


def read_completions(path: Path, gates: Sequence[str] = (), *, texts: bool = False) -> pd.DataFrame:
    """Completions with attempts merged: step, group, reward, truncated, the status of each gate, and text when asked for."""
    wanted = ["attempt", "step", "group", "reward", "truncated", *(gate_columns(gate)[0] for gate in gates), *(["text"] if texts else [])]
    frame, _ = _read(path, COMPLETIONS_SCHEMA, wanted, wanted)
    return pd.DataFrame(columns=wanted) if frame is None else merge_attempts(frame)[0]


@dataclass(frozen=True)
class ScoreCounts:
    """What one score of the shared evaluation said of a model's completions."""

    passed: int
    failed: int
    unknown: int
    score: float | None
    """Mean score of the known ones; null when there are none."""


@dataclass(frozen=True)
class Evaluation:
    path: Path
    attempt: str | None
    """Attempt of the adapter that was evaluated; null when there is no file."""
    scores: Mapping[str, ScoreCounts]


def read_evaluation(path: Path, scores: Sequence[str]) -> Evaluation:
    """Counts per score of evaluation.parquet; no scores when the file is missing or has no rows."""
    wanted = [column for score in scores for column in gate_columns(score)[:2]]
    frame, metadata = _read(path, EVALUATION_SCHEMA, wanted, wanted)
    if frame is None or frame.empty:
        return Evaluation(path, metadata.get("octavo.attempt"), {})
    counts = {}
    for score in scores:
        status, value, _ = gate_columns(score)
        said = frame[status].value_counts()
        known = frame[value].dropna()
        mean = float(known.mean()) if len(known) else None
        counts[score] = ScoreCounts(int(said.get("pass", 0)), int(said.get("fail", 0)), int(said.get("unknown", 0)), mean)
    return Evaluation(path, metadata.get("octavo.attempt"), counts)


def _read(path: Path, schema: str, columns: Sequence[str], wanted: list[str]) -> tuple[pd.DataFrame | None, dict[str, str]]:
    """Wanted columns and metadata of a Parquet file; (None, {}) when it does not exist."""
    if not path.is_file():
        return None, {}
    try:
        with pq.ParquetFile(path) as file:
            metadata = {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}
            missing = sorted(set(columns) - set(file.schema_arrow.names))
            table: Any = None if missing else file.read(columns=wanted, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise ArtifactError(
            path, f"not a Parquet file: {error}", why="it was cut or overwritten", fix="dvc checkout, or dvc repro"
        ) from None
    if metadata.get("octavo.schema") != schema:
        found = metadata.get("octavo.schema")
        raise ArtifactError(path, f"schema is {found!r}, expected {schema!r}", why="another version or another file", fix="dvc repro")
    if missing:
        raise ArtifactError(path, f"columns are missing: {', '.join(missing)}", why=f"{schema} has them", fix="octavo compile && dvc repro")
    for column in set(_REPEATING) & set(wanted):  # few distinct texts: as categories they are ten times faster to group
        table = table.set_column(wanted.index(column), column, table.column(column).dictionary_encode())
    return table.to_pandas(use_threads=False), metadata  # small files: threads cost more than they save
