"""The index of a history: written where a table can have one, believed only where it fits its table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from stages.analyse.columns import ScatteredColumns
from stages.analyse.indexed_columns import IndexedColumns
from stages.analyse.tables import read_history
from stages.contracts.artifact import ArtifactError
from stages.contracts.history_index import INDEX, MOST, HistoryIndex, arranged
from stages.train.recorder import sorting_columns, write_history


def row(step: int, metric: str, value: float = 0.5, attempt: str = "a") -> dict[str, Any]:
    return {
        "attempt": attempt,
        "step": step,
        "tokens": step * 40,
        "seconds": step * 0.5,
        "metric": metric,
        "value": value,
        "state": "value",
    }


def test_rows_are_sorted_by_metric_and_step_and_metrics_share_their_steps() -> None:
    rows = [row(step, name) for step in (1, 2, 3, 5, 7, 9) for name in ("loss", "kl")] + [row(4, "eval")]
    found = arranged(rows)
    assert found is not None
    ordered, index = found
    assert [(each["metric"], each["step"]) for each in ordered] == [
        ("eval", 4),
        *(("kl", step) for step in (1, 2, 3, 5, 7, 9)),
        *(("loss", step) for step in (1, 2, 3, 5, 7, 9)),
    ]
    assert index.metrics == (("eval", 0), ("kl", 1), ("loss", 1))
    assert index.steps == (((4, 4, 1),), ((1, 3, 1), (5, 9, 2)))
    assert [index.rows(place) for place in (0, 1)] == [1, 6]
    assert HistoryIndex.read(index.model_dump_json(), 13) == index


def test_tables_without_an_index() -> None:
    assert arranged([row(0, "kl"), row(2**54, "kl"), row(1, "loss")]) is None  # numpy counts a range of such steps wrongly
    assert arranged([]) is None
    assert arranged([row(1, "kl"), row(2, "kl", attempt="b")]) is None
    assert arranged([row(1, "kl"), row(2, "kl"), row(1, "kl")]) is None
    squares = [row(step * step, "kl") for step in range(1, 2 * MOST + 3)]  # of squares, two make a stretch
    assert arranged(squares[:-2]) is not None
    assert arranged(squares) is None


def test_a_recorded_history_is_the_same_table_for_whoever_reads_it_row_by_row(tmp_path: Path) -> None:
    rows = [row(step, name, step / 8) for step in range(1, 6) for name in ("loss", "kl")]
    write_history(tmp_path / "h.parquet", rows, card_id="c", attempt="a")
    table = pq.read_table(tmp_path / "h.parquet")
    assert sorted(table.to_pylist(), key=lambda each: (each["step"], each["metric"])) == sorted(
        rows, key=lambda each: (each["step"], each["metric"])
    )
    history = read_history(tmp_path / "h.parquet")
    assert isinstance(history.columns, IndexedColumns)
    assert history.columns["kl"].values.tolist() == [0.125, 0.25, 0.375, 0.5, 0.625]
    assert history.columns["kl"].steps is history.columns["loss"].steps


def test_a_table_that_another_program_sorted_anew_is_read_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    write_history(path, [row(step, name, step + len(name)) for step in (1, 2) for name in ("loss", "kl")], card_id="c", attempt="a")
    before = read_history(path)
    pq.write_table(pq.read_table(path).sort_by("step"), path)  # keeps all metadata of ours
    after = read_history(path)
    assert (type(before.columns), type(after.columns)) == (IndexedColumns, ScatteredColumns)
    assert after.columns["kl"].values.tolist() == before.columns["kl"].values.tolist() == [3.0, 4.0]


INDEXES = {
    "no JSON": "{",
    "other keys": '{"rows": 3}',
    "too few rows": {"metrics": [["kl", 0]], "steps": [[[1, 2, 1]]]},
    "too many rows": {"metrics": [["kl", 0]], "steps": [[[1, 10**15, 1]]]},
    "a metric twice": {"metrics": [["kl", 0], ["kl", 0]], "steps": [[[1, 2, 1]]]},
    "steps that it does not hold": {"metrics": [["kl", 1]], "steps": [[[1, 4, 1]]]},
    "steps that fall": {"metrics": [["kl", 0]], "steps": [[[3, 4, 1], [1, 2, 1]]]},
    "no distance": {"metrics": [["kl", 0]], "steps": [[[1, 4, 0]]]},
    "an end between two steps": {"metrics": [["kl", 0]], "steps": [[[1, 8, 2]]]},
    "steps that no integer column holds": {"metrics": [["kl", 0]], "steps": [[[2**63, 2**63 + 3, 1]]]},
}


@pytest.mark.parametrize("case", INDEXES)
def test_an_index_that_does_not_fit_its_table_is_an_error(tmp_path: Path, case: str) -> None:
    path, index = tmp_path / "h.parquet", INDEXES[case]
    write_history(path, [row(step, "kl") for step in range(1, 5)], card_id="c", attempt="a")
    table = pq.read_table(path)
    text = index if isinstance(index, str) else json.dumps(index)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, INDEX.encode(): text}), path, sorting_columns=sorting_columns())
    with pytest.raises(ArtifactError, match=re.escape(INDEX)):
        read_history(path)
