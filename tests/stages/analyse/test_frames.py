"""The reader of a run's tables, and what a run says of its own cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from run_from import read_history
from synthetic import write_completions, write_evaluation, write_history

from stages.analyse.cells import NOT_FINITE, NULL, NonFinite
from stages.analyse.frames import Resume, Run
from stages.analyse.load import read_evaluation
from stages.analyse.outcomes import rows
from stages.analyse.signals import first_above
from stages.contracts.artifact import ArtifactError

Log = Callable[..., Run]
NAN = float("nan")


def course(metric: str, values: dict[int, Any], attempt: str = "a1") -> list[dict[str, Any]]:
    """Rows of one metric by step; None is null, and "nan" not finite."""
    shared = {"attempt": attempt, "tokens": None, "seconds": 0.0, "metric": metric}
    states = {None: (None, "null"), "nan": (None, "nonfinite")}
    return [
        {**shared, "step": step, **dict(zip(("value", "state"), states.get(value, (value, "value")), strict=True))}
        for step, value in values.items()
    ]


def steady(value: Any, *steps: int) -> dict[int, Any]:
    """The value at the steps from the first to the last."""
    return dict.fromkeys(range(steps[0], steps[1] + 1), value)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Writes a history and reads it back."""

    def written(*courses: list[dict[str, Any]], **names: str) -> Run:
        write_history(tmp_path / "history.parquet", [row for part in courses for row in part], **names)
        return read_history(tmp_path / "history.parquet")

    return written


def test_four_states_of_a_cell_stay_apart(log: Log) -> None:
    run = log(course("kl", {1: 0.1, 2: None, 3: "nan", 5: 0.2}), course("loss", {4: 0.0}), card_id="c1", attempt="a9")
    assert run.logged("kl").to_dict() == {1: 0.1, 2: NULL, 3: NOT_FINITE, 5: 0.2}  # step 4 is absent: no cell at all
    assert run.values("kl").to_dict() == {1: 0.1, 5: 0.2}
    assert (run.card_id, run.attempt, run.last_step) == ("c1", "a9", 5)


def test_nan_under_the_state_value_is_non_finite(log: Log) -> None:
    run = log(course("grad_norm", {1: NAN, 2: float("inf"), 3: 1.0}))
    assert run.logged("grad_norm").tolist() == [NOT_FINITE, NOT_FINITE, 1.0] and run.bad_steps.tolist() == [1, 2]


def test_case_18_a_later_attempt_wins_and_the_overlap_is_noted(log: Log) -> None:
    run = log(course("reward", steady(0.1, 1, 212), "z-first"), course("reward", steady(0.9, 201, 300), "a-second"))
    assert run.notes == ("steps 201-212 of attempt z-first were made again by attempt a-second; the later rows count",)
    assert run.resumes == (Resume(201, 200, 12),)
    assert run.values("reward").to_dict() == steady(0.1, 1, 200) | steady(0.9, 201, 300)


def test_rows_beyond_the_later_attempt_belong_to_a_trajectory_given_up(log: Log) -> None:
    run = log(course("reward", steady(0.1, 1, 12)), course("kl", {11: 5.0}), course("reward", {11: 0.9}, "a2"))
    assert (run.last_step, run.logs("kl"), run.resumes) == (11, False, (Resume(11, 10, 2),))


def test_skipped_and_non_finite_steps_enter_no_statistic(log: Log) -> None:
    reward = {step: step / 10 for step in range(1, 11)}
    run = log(
        course("reward", reward), course("skipped", steady(0.0, 1, 10) | {4: 1.0}), course("grad_norm", steady(1.0, 1, 10) | {6: "nan"})
    )
    assert (run.bad_steps.tolist(), run.since) == ([4, 6], None)
    assert run.values("reward").loc[3:7].tolist() == [0.3, 0.5, 0.7]


@pytest.mark.parametrize(("every", "since", "kept"), [(1, 8, 7), (2, 5, 4)])
def test_persistent_from_a_step_ends_the_valid_range_before_it(log: Log, every: int, since: int, kept: int) -> None:
    """Where gradient norms stand on odd steps only and are NaN from step 5, step 6 has a plausible reward and a broken policy."""
    norms = {step: "nan" if step >= since else 1.0 for step in range(1, 11, every)}
    run = log(course("reward", steady(0.5, 1, 10)), course("grad_norm", norms))
    assert (run.since, len(run.values("reward"))) == (since, kept)


@pytest.mark.parametrize("rows", [[], None])
def test_a_failed_run_has_no_rows_or_no_file(tmp_path: Path, rows: list[dict[str, Any]] | None) -> None:
    path = tmp_path / "history.parquet"
    if rows is not None:
        write_history(path, rows, card_id="c1")
        write_completions(tmp_path / "completions.parquet", [], ["tests"])
    run = read_history(path, completions=("step", "reward"))
    assert (run.steps.empty, run.last_step, run.stride, run.gradient) == (True, 0, 1, None)
    assert run.card_id == (None if rows is None else "c1")
    assert run.values("reward").empty and run.completions.empty


def test_a_broken_or_foreign_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "history.parquet").write_bytes(b"PAR1 cut")
    with pytest.raises(ArtifactError, match=r"history\.parquet: not a Parquet file"):
        read_history(tmp_path / "history.parquet")
    write_evaluation(tmp_path / "e.parquet", 1, attempt="a1")
    (tmp_path / "history.parquet").write_bytes((tmp_path / "e.parquet").read_bytes())
    with pytest.raises(ArtifactError, match=r"schema is 'octavo.evaluation/1', expected 'octavo.history/1'"):
        read_history(tmp_path / "history.parquet")
    with pytest.raises(ArtifactError, match=r"columns are missing: gate\.canonical\.score, gate\.canonical\.status"):
        read_evaluation(tmp_path / "e.parquet", ["canonical"])


@pytest.mark.parametrize("kind", ["int64", "large_string"])
def test_text_where_a_number_belongs_is_refused(tmp_path: Path, kind: str) -> None:
    write_history(tmp_path / "history.parquet", course("reward", {1: 0.5}))
    table = pq.read_table(tmp_path / "history.parquet")
    pq.write_table(table.set_column(1, "step", table["step"].cast("string").cast(kind)), tmp_path / "history.parquet")
    if kind == "int64":
        assert read_history(tmp_path / "history.parquet").last_step == 1
    else:
        with pytest.raises(ArtifactError, match="column step is large_string"):
            read_history(tmp_path / "history.parquet")


def _completion(step: int, group: int, reward: float | None, text: str = "x", truncated: bool = False) -> dict[str, Any]:
    row = {"attempt": "a1", "step": step, "prompt_id": "p", "group": group, "text": text, "reward": reward, "tokens": 3}
    return {**row, "truncated": truncated}


def test_completions_are_summed_up_per_step(tmp_path: Path) -> None:
    rows = [
        *(_completion(1, 0, 0.5) for _ in range(4)),  # constant: no signal
        *(_completion(1, 1, value) for value in (0.0, 1.0, None, None)),  # a signal
        *(_completion(2, 0, value) for value in (0.5, None, None, None)),  # one known reward compares with nothing
        *(_completion(2, 1, 0.21, text, truncated=True) for text in ("a", "b", "c", "<script>")),
        *(_completion(2, 2, None) for _ in range(4)),  # nothing is known: no signal
    ]
    write_completions(tmp_path / "completions.parquet", rows, [])
    write_history(tmp_path / "history.parquet", [])
    run = read_history(tmp_path / "history.parquet", completions=("step", "group", "reward", "truncated", "text"))
    assert run.silent.to_dict("index") == {1: {"k": 1, "n": 2}, 2: {"k": 3, "n": 3}}
    assert run.cut.to_dict("index") == {1: {"k": 0, "n": 8}, 2: {"k": 4, "n": 12}}
    assert run.rewards.to_dict("index") == {1: {0.0: 1, 0.21: 0, 0.5: 4, 1.0: 1}, 2: {0.0: 0, 0.21: 4, 0.5: 1, 1.0: 0}}
    assert run.same_text.to_dict("index") == {1: {"k": 8, "n": 8}, 2: {"k": 8, "n": 12}}
    assert run.examples[0.21] == ["b", "c", "<script>"]


def test_non_finite_classes() -> None:
    def spread(steps: Any, bad: tuple[int, ...]) -> NonFinite | None:
        return NonFinite.classify(pd.Series([step in bad for step in steps], index=list(steps)))

    assert spread(range(1, 11), ()) is None
    assert spread(range(1, 11), (2, 9, 10)) == NonFinite(3, 10, 2, 10, None, 2)
    assert spread(range(1, 11), (8, 9, 10)) == NonFinite(3, 10, 8, 10, 8, 10)
    assert spread((1, 3, 5, 7), (3, 5, 7)) == NonFinite(3, 4, 3, 7, 3, 7)


def test_first_window_above_a_limit() -> None:
    counts = pd.DataFrame({"k": [10 * (step == 7) for step in range(1, 21)], "n": 10}, index=range(1, 21))
    assert first_above(counts, 0.15, 5) == (3, 7, 10, 50, 7)
    assert first_above(counts, 0.2, 5) is None
    assert first_above(pd.DataFrame({"k": [1], "n": [1]}, index=[1]), 0.5, 10) is not None  # a log shorter than the window is one window


@pytest.mark.parametrize("metric", ["reward", "reward_std"])
def test_where_no_completion_was_scored_no_group_has_a_signal_also_when_nothing_else_is_read(log: Log, metric: str) -> None:
    """Steps 3 and 4 have no reward: TRL logs 0.0 of such a step, and octavo's own runs 1.0."""
    shares = course("zero_signal_share", {1: 0.5, 2: 0.0, 3: 0.0, 4: 1.0})
    run = log(shares, course(metric, steady(0.3, 1, 2) | steady(None, 3, 4)))
    assert run.values("zero_signal_share").to_dict() == {1: 0.5, 2: 0.0, 3: 1.0, 4: 1.0}
    assert [row["zero_signal_share"] for _, row in rows(run, ["zero_signal_share"])] == [0.5, 0.0, 1.0, 1.0]
