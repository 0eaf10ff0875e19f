"""What is kept of a run's tables when they are let go, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import write_completions, write_history

from stages.analyse.completions import read_completions
from stages.analyse.tables import read_history
from stages.analyse.traces import GateCounts, Rows, Trace, reduce
from stages.analyse.windows import Window
from stages.contracts.history import gate_columns

WINDOWS = {"initial": Window(1, 4), "final": Window(9, 12)}
STATUS, SCORE, REASON = gate_columns("tests")


def cell(step: int, metric: str, value: float | None, state: str = "value") -> dict[str, Any]:
    return {"attempt": "a1", "step": step, "tokens": None, "seconds": 0.0, "metric": metric, "value": value, "state": state}


def said(step: int, *statuses: str) -> list[dict[str, Any]]:
    shared = {"attempt": "a1", "step": step, "prompt_id": "p", "group": 0, "text": "x", "reward": 1.0, "tokens": 1, "truncated": False}
    return [{**shared, STATUS: status, SCORE: None, REASON: ""} for status in statuses]


def reduced(folder: Path, cells: list[dict[str, Any]], completions: list[dict[str, Any]], metrics: tuple[str, ...] = ("reward",)) -> Trace:
    write_history(folder / "h.parquet", cells, attempt="a1")
    write_completions(folder / "c.parquet", completions, ["tests"])
    found = read_completions(folder / "c.parquet", ["tests"])
    return reduce(read_history(folder / "h.parquet"), found, metrics, ("tests",), WINDOWS)


def test_windows_become_counts_means_and_spreads(tmp_path: Path) -> None:
    cells = [cell(step, "reward", float(step)) for step in range(1, 13)] + [cell(step, "other", 1.0) for step in range(1, 14)]
    completions = said(1, "pass", "fail") + said(4, "unknown") + said(5, "pass") + said(12, "pass", "not_reached", "pass")
    trace = reduced(tmp_path, cells, completions, ("reward", "kl"))
    first = trace.rows["reward", "initial"]
    assert first is not None
    assert (first.n, first.mean, first.exact, first.deviation, list(first.batches)) == (4, 2.5, 2.5, (5 / 3) ** 0.5, [1.5, 3.5])
    assert trace.rows["reward", "final"] == Rows(4, 10.5, 10.5, (5 / 3) ** 0.5, trace.rows["reward", "final"].batches)  # type: ignore[union-attr]
    assert trace.rows["kl", "initial"] is None and trace.correlation["kl"] is None
    assert trace.gates == {("tests", "initial"): GateCounts(3, 1, 1, 1), ("tests", "final"): GateCounts(3, 2, 0, 0)}
    assert (trace.gates["tests", "initial"].reached, trace.gates["tests", "final"].reached) == (3, 2)
    assert trace.correlation["reward"] == 0.0  # twelve rows on a line
    assert (trace.last_step, trace.stride, trace.since, trace.logged, trace.exists, trace.attempt) == (13, 1, None, True, True, "a1")
    assert set(trace.rows) == {(name, window) for name in ("reward", "kl") for window in WINDOWS}  # `other` was not asked for


def test_what_may_not_enter_statistics_is_in_no_window(tmp_path: Path) -> None:
    """The gradient of step 2 is NaN, that of 10 and later stays so: 2 and 10 to 12 count nowhere, be their rewards as good as they may."""
    cells = [cell(step, "reward", 5.0 if step in (2, 10, 11, 12) else 1.0) for step in range(1, 13)]
    cells += [
        cell(step, "grad_norm", None, "nonfinite") if step in (2, 10, 11, 12) else cell(step, "grad_norm", 1.0) for step in range(1, 13)
    ]
    trace = reduced(tmp_path, cells, [row for step in range(1, 13) for row in said(step, "pass")])
    first, last = trace.rows["reward", "initial"], trace.rows["reward", "final"]
    assert first is not None and last is not None
    assert (first.n, first.mean, last.n, last.mean) == (3, 1.0, 1, 1.0)
    assert (trace.since, trace.gates["tests", "initial"].passed, trace.gates["tests", "final"].passed) == (10, 3, 1)
    assert trace.correlation["reward"] is None  # eight rows are left


def test_a_failed_run_leaves_holes(tmp_path: Path) -> None:
    for trace in (
        reduced(tmp_path, [], []),
        reduce(read_history(tmp_path / "no.parquet"), read_completions(tmp_path / "no", ["tests"]), ("reward",), ("tests",), WINDOWS),
    ):
        assert (trace.logged, trace.last_step, trace.rows["reward", "final"]) == (False, 0, None)
        assert trace.gates["tests", "final"] == GateCounts(0, 0, 0, 0)


def test_rows_of_one_value_and_of_none() -> None:
    assert Rows.of([0.1]) == Rows(1, 0.1, 0.1, 0.0, Rows.of([0.2]).batches)
    assert Rows.of([0.1] * 3).deviation == 0.0  # not the dust of a rounded mean
    with pytest.raises(ValueError, match="nothing"):
        Rows.of([])
