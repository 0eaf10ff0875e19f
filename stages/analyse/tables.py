"""The one reader of a run's tables: Parquet -> frames.

Attempts are merged: a later attempt replaces, from its first step on, all that came before it. A missing file and a file without rows are
both an empty frame, because a failed run leaves little behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stages.analyse.frames import NOT_FINITE, NULL, Overlap, Resume, Run
from stages.contracts.analysis_card import ConditionCard, RunRef
from stages.contracts.artifact import Artifact, ArtifactError, read
from stages.contracts.history import COMPLETIONS_SCHEMA, EVALUATION_SCHEMA, HISTORY_COLUMNS, HISTORY_SCHEMA, gate_columns
from stages.contracts.layout import RunFolder

A = TypeVar("A", bound=Artifact)


def read_run(place: RunFolder, run: RunRef, condition: ConditionCard, completions: Sequence[str] = ()) -> Run:
    """Read a run's history, and these columns of its completions. Raises ArtifactError for a broken or foreign file."""
    rows, metadata = read_table(place.history, HISTORY_SCHEMA, HISTORY_COLUMNS[:2] + HISTORY_COLUMNS[4:], HISTORY_COLUMNS)
    rows, overlaps, boundaries = merge_attempts(rows)
    steps, repeated = _wide(rows)
    sampled = pd.DataFrame()
    if completions:
        sampled = merge_attempts(read_table(place.completions, COMPLETIONS_SCHEMA, ("attempt", *completions))[0])[0]
    return Run(
        name=run.name,
        condition=run.condition,
        role=condition.role,
        target_steps=run.target_steps,
        steps=steps,
        completions=sampled,
        path=place.history,
        card_id=metadata.get("octavo.card_id", "") if place.history.is_file() else None,
        attempt=metadata.get("octavo.attempt"),
        resumes=tuple(_resume(steps, boundary, overlaps) for boundary in boundaries),
        overlaps=overlaps,
        repeated=repeated,
    )


def _resume(steps: pd.DataFrame, boundary: int, overlaps: Sequence[Overlap]) -> Resume:
    earlier = steps.index[steps.index < boundary]
    again = max((lap.last - lap.first + 1 for lap in overlaps if lap.first == boundary), default=0)
    return Resume(boundary, int(earlier[-1]) if len(earlier) else 0, again)


def read_if_there(kind: type[A], path: Path) -> A | None:
    """A JSON artifact; None without the file."""
    return read(kind, path) if path.exists() else None


def read_evaluation(path: Path, scores: Sequence[str]) -> tuple[pd.DataFrame, str | None]:
    """Status and score columns of evaluation.parquet, empty without the file, and the attempt of the adapter that was evaluated."""
    columns = [column for score in scores for column in gate_columns(score)[:2]]
    rows, metadata = read_table(path, EVALUATION_SCHEMA, columns)
    return rows, metadata.get("octavo.attempt")


def read_table(path: Path, schema: str, columns: Sequence[str], required: Sequence[str] = ()) -> tuple[pd.DataFrame, dict[str, str]]:
    """Columns of a Parquet file with its metadata; text columns are categories. ({}, empty) when the file does not exist. Raises
    ArtifactError when it is no Parquet file, of another schema, or lacks a column."""
    if not path.is_file():
        return pd.DataFrame({column: [] for column in columns}), {}
    fix = "dvc checkout, or dvc repro"
    try:
        arrow = pq.read_schema(path)
        metadata = {key.decode(): value.decode() for key, value in (arrow.metadata or {}).items()}
        if metadata.get("octavo.schema") != schema:
            what = f"schema is {metadata.get('octavo.schema')!r}, expected {schema!r}"
            raise ArtifactError(path, what, why="another version or another file", fix="dvc repro")
        if missing := sorted({*columns, *required} - set(arrow.names)):
            what = f"columns are missing: {', '.join(missing)}"
            raise ArtifactError(path, what, why=f"{schema} has them", fix="octavo compile && dvc repro")
        texts = [name for name in columns if not _is_number(arrow.field(name).type)]
        odd = [name for name in columns if (name in texts) is not _is_text(name) and not pa.types.is_null(arrow.field(name).type)]
        if odd:
            what = f"column {odd[0]} is {arrow.field(odd[0]).type}"
            raise ArtifactError(path, what, why=f"{schema} has other types", fix="octavo compile && dvc repro")
        table = pq.read_table(path, columns=list(columns), read_dictionary=texts, use_threads=False, partitioning=None)
        return table.to_pandas(ignore_metadata=True), metadata
    except (pa.ArrowInvalid, OSError) as error:
        raise ArtifactError(path, f"not a Parquet file: {error}", why="it was cut or overwritten", fix=fix) from None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind))


def _is_text(column: str) -> bool:
    return column in ("attempt", "metric", "state", "text") or column.endswith(".status")


def merge_attempts(rows: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Overlap, ...], tuple[int, ...]]:
    """Rows of the trajectory that counts, what was made twice, and the first steps of the attempts that went on after another one.

    Attempts are in order of their first row. Rows beyond the later attempt's last step go too: that trajectory was given up.
    """
    codes, names = pd.factorize(rows["attempt"], use_na_sentinel=False)
    if len(names) < 2:
        return rows, (), ()
    steps = rows["step"].to_numpy()
    firsts = pd.Series(steps).groupby(codes).min()
    kept, overlaps = np.ones(len(rows), dtype=bool), []
    for code in range(len(names) - 1):
        by = firsts[code + 1 :].idxmin()
        again = (codes == code) & (steps >= firsts[by])
        if again.any():
            overlaps.append(Overlap(str(names[code]), str(names[by]), int(steps[again].min()), int(steps[again].max())))
            kept &= ~again
    begun = pd.Series(steps[kept]).groupby(codes[kept], sort=False).min()
    return rows[kept], tuple(overlaps), tuple(sorted(int(step) for step in begun.iloc[1:]))


def _wide(rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The wide frame, and how many rows repeat a metric and a step. Other writers' NaN under `value` and numbers under `null` are told
    apart by state and value together; an unknown state is read as null."""
    rows = rows[rows["metric"].notna()]
    value, state = rows["value"].to_numpy(dtype=float), rows["state"]
    is_value = (state == "value").to_numpy()
    cells = np.where(is_value | (state == "nonfinite").to_numpy(), NOT_FINITE, NULL)
    cells = np.where(is_value & np.isfinite(value), value, cells)
    metrics, names = pd.factorize(rows["metric"])
    places, steps = pd.factorize(rows["step"], sort=True)
    wide = np.full((len(steps), len(names)), np.nan)
    wide[places, metrics] = cells  # of rows that repeat a metric and a step the last one counts
    frame = pd.DataFrame(wide, index=pd.Index(np.asarray(steps, dtype=int), name="step"), columns=[str(name) for name in names])
    return frame.sort_index(axis=1), len(rows) - int((~np.isnan(wide)).sum())
