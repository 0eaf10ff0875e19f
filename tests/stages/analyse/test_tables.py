from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import write_completions, write_evaluation, write_history

from stages.analyse.completions import completions_summary, read_completions, read_evaluation
from stages.analyse.replay import rows
from stages.analyse.tables import Overlap, read_history
from stages.contracts.artifact import ArtifactError
from stages.contracts.series import Share, classify, first_above, stride


def cell(step: int, metric: str, value: float | None, state: str = "value", attempt: str = "a1") -> dict[str, Any]:
    return {"attempt": attempt, "step": step, "tokens": None, "seconds": 0.0, "metric": metric, "value": value, "state": state}


def test_four_states_of_a_cell_stay_apart(tmp_path: Path) -> None:
    rows = [cell(1, "kl", 0.1), cell(2, "kl", None, "null"), cell(3, "kl", None, "nonfinite"), cell(4, "loss", 0.0), cell(5, "kl", 0.2)]
    write_history(tmp_path / "h.parquet", rows, card_id="c1", attempt="a9")
    history = read_history(tmp_path / "h.parquet")
    # step 4 is absent: no cell at all
    assert history.columns["kl"].cells() == ((1, 0.1, "value"), (2, None, "null"), (3, None, "nonfinite"), (5, 0.2, "value"))
    assert history.values("kl", 1, 5).tolist() == [0.1, 0.2]
    assert (history.card_id, history.attempt, history.last_step) == ("c1", "a9", 5)


def test_nan_under_the_state_value_is_non_finite(tmp_path: Path) -> None:
    write_history(
        tmp_path / "h.parquet", [cell(1, "grad_norm", float("nan")), cell(2, "grad_norm", float("inf")), cell(3, "grad_norm", 1.0)]
    )
    history = read_history(tmp_path / "h.parquet")
    assert [state for _, _, state in history.columns["grad_norm"].cells()] == ["nonfinite", "nonfinite", "value"]
    assert history.bad_steps == {1, 2}


def test_case_18_a_later_attempt_wins_and_the_overlap_is_noted(tmp_path: Path) -> None:
    first = [cell(step, "reward", 0.1, attempt="z-first") for step in range(1, 213)]
    second = [cell(step, "reward", 0.9, attempt="a-second") for step in range(201, 301)]
    write_history(tmp_path / "h.parquet", [*first, *second])
    history = read_history(tmp_path / "h.parquet")
    assert history.overlaps == (Overlap("z-first", "a-second", 201, 212),)
    assert history.boundaries == (201,)
    assert history.columns["reward"].steps.tolist() == list(range(1, 301))
    assert history.values("reward", 200, 201).tolist() == [0.1, 0.9]
    assert history.values("reward", 212, 212).tolist() == [0.9]


def test_rows_beyond_the_later_attempt_belong_to_a_trajectory_given_up(tmp_path: Path) -> None:
    first = [cell(step, "reward", 0.1) for step in range(1, 13)] + [cell(11, "kl", 5.0)]
    second = [cell(step, "reward", 0.9, attempt="a2") for step in range(11, 12)]
    write_history(tmp_path / "h.parquet", [*first, *second])
    history = read_history(tmp_path / "h.parquet")
    assert history.last_step == 11
    assert "kl" not in history.columns
    assert history.overlaps == (Overlap("a1", "a2", 11, 12),)


def test_attempts_without_overlap_are_joined_silently(tmp_path: Path) -> None:
    write_history(
        tmp_path / "h.parquet", [cell(1, "reward", 0.1), cell(2, "reward", 0.2, attempt="a2"), cell(3, "reward", 0.3, attempt="a2")]
    )
    history = read_history(tmp_path / "h.parquet")
    assert (history.overlaps, history.boundaries, history.last_step) == ((), (2,), 3)


def test_skipped_and_non_finite_steps_enter_no_statistic(tmp_path: Path) -> None:
    rows = [cell(step, "reward", step / 10) for step in range(1, 11)]
    rows += [cell(step, "skipped", float(step == 4)) for step in range(1, 11)]
    rows += [cell(step, "grad_norm", None if step == 6 else 1.0, "nonfinite" if step == 6 else "value") for step in range(1, 11)]
    write_history(tmp_path / "h.parquet", rows)
    history = read_history(tmp_path / "h.parquet")
    assert history.bad_steps == {4, 6}
    assert history.values("reward", 3, 7).tolist() == [0.3, 0.5, 0.7]
    assert history.gradient.kind == "transient"


def test_persistent_from_a_step_ends_the_valid_range_before_it(tmp_path: Path) -> None:
    rows = [cell(step, "reward", 0.5) for step in range(1, 11)]
    rows += [cell(step, "grad_norm", None if step >= 8 else 1.0, "nonfinite" if step >= 8 else "value") for step in range(1, 11)]
    write_history(tmp_path / "h.parquet", rows)
    history = read_history(tmp_path / "h.parquet")
    assert (history.gradient.kind, history.gradient.since) == ("persistent", 8)
    assert len(history.values("reward", 1, 10)) == 7


def test_the_valid_range_also_ends_for_steps_between_rare_gradient_rows(tmp_path: Path) -> None:
    """Gradient norms on odd steps only, NaN from step 5: step 6 has a plausible reward and a broken policy."""
    rows = [cell(step, "reward", step / 10) for step in range(1, 11)]
    rows += [cell(step, "grad_norm", None if step >= 5 else 1.0, "nonfinite" if step >= 5 else "value") for step in range(1, 11, 2)]
    write_history(tmp_path / "h.parquet", rows)
    assert read_history(tmp_path / "h.parquet").values("reward", 1, 10).tolist() == [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize("rows", [[], None])
def test_a_failed_run_has_no_rows_or_no_file(tmp_path: Path, rows: list[dict[str, Any]] | None) -> None:
    path = tmp_path / "h.parquet"
    if rows is not None:
        write_history(path, rows, card_id="c1")
        write_completions(tmp_path / "c.parquet", [], ["tests"])
    history = read_history(path)
    assert (history.columns, history.last_step, history.stride, history.gradient.kind) == ({}, 0, 1, "none")
    assert history.exists is (rows is not None)
    assert history.values("reward", 1, 5).tolist() == []
    assert read_completions(tmp_path / "c.parquet", ["tests"]).rows == 0


def test_a_broken_or_foreign_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "h.parquet").write_bytes(b"PAR1 cut")
    with pytest.raises(ArtifactError, match=r"h\.parquet: not a Parquet file"):
        read_history(tmp_path / "h.parquet")
    write_evaluation(tmp_path / "e.parquet", 1, attempt="a1")
    with pytest.raises(ArtifactError, match=r"schema is 'octavo.evaluation/1', expected 'octavo.history/1'"):
        read_history(tmp_path / "e.parquet")
    with pytest.raises(ArtifactError, match=r"columns are missing: gate\.canonical\.score, gate\.canonical\.status"):
        read_evaluation(tmp_path / "e.parquet", ["canonical"])


def test_evaluation_counts_known_and_unknown(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "e.parquet", 15, attempt="a1", of=20, unknown=3)
    counts = read_evaluation(tmp_path / "e.parquet", ["tests"]).scores["tests"]
    assert (counts.passed, counts.failed, counts.unknown, counts.score) == (15, 5, 3, 0.75)
    assert read_evaluation(tmp_path / "none.parquet", ["tests"]).scores == {}


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
    write_completions(tmp_path / "c.parquet", rows, [])
    found = completions_summary(read_completions(tmp_path / "c.parquet", texts=True))
    assert found.zero_signal == (Share(1, 1, 2), Share(2, 3, 3))
    assert found.truncated == (Share(1, 0, 8), Share(2, 4, 12))
    assert (found.completions, found.unknown) == (20, 9)
    assert [(count.step, count.reward, count.completions) for count in found.rewards] == [
        (1, 0.0, 1),
        (1, 0.5, 4),
        (1, 1.0, 1),
        (2, 0.21, 4),
        (2, 0.5, 1),
    ]
    assert found.examples[0.21] == ("b", "c", "<script>")


@pytest.mark.parametrize(("steps", "distance"), [([1, 2, 3], 1), ([1, 3, 5, 6], 2), ([7], 1), ([], 1), ([1, 2, 4, 6], 2)])
def test_stride_is_the_most_common_distance(steps: list[int], distance: int) -> None:
    assert stride(steps) == distance


def test_non_finite_classes() -> None:
    assert classify(range(1, 11), ()).kind == "none"
    assert classify(range(1, 11), (2, 9, 10))[:2] == ("transient", 3)
    assert classify(range(1, 11), (8, 9, 10)).since == 8
    assert classify((1, 3, 5, 7), (3, 5, 7)) == ("persistent", 3, 4, 3, 7, 3)
    assert classify(range(1, 5), (1,)).share == 0.25


def test_first_window_above_a_limit() -> None:
    counts = [Share(step, 10 * (step == 7), 10) for step in range(1, 21)]
    hit = first_above(counts, 0.15, 5)
    assert hit is not None
    assert (hit.first, hit.last, hit.onset, hit.k, hit.n) == (3, 7, 7, 10, 50)
    assert first_above(counts, 0.2, 5) is None
    assert first_above([Share(1, 1, 1)], 0.5, 10) is not None  # a log shorter than the window is one window
    assert first_above([], 0.5, 10) is None


@pytest.mark.parametrize("of", ["reward", "reward_std"])
def test_where_no_completion_was_scored_no_group_has_a_signal_also_when_nothing_else_is_read(tmp_path: Path, of: str) -> None:
    """Steps 3 and 4 have no reward: TRL logs 0.0 of such a step, and octavo's own runs 1.0."""
    row = {"attempt": "a", "tokens": None, "seconds": 0.0, "state": "value"}
    shares = [{**row, "step": step, "metric": "zero_signal_share", "value": value} for step, value in enumerate((0.5, 0.0, 0.0, 1.0), 1)]
    rewards = [{**row, "step": step, "metric": of, "value": 0.3} for step in (1, 2)]
    rewards += [{**row, "step": step, "metric": of, "value": None, "state": "null"} for step in (3, 4)]
    write_history(tmp_path / "h.parquet", shares + rewards)
    for found in (read_history(tmp_path / "h.parquet", {"zero_signal_share"}), read_history(tmp_path / "h.parquet")):
        assert found.rows("zero_signal_share").pairs() == [(1, 0.5), (2, 0.0), (3, 1.0), (4, 1.0)]
        assert found.values("zero_signal_share", 1, 4).mean() == 0.625
        assert [row["zero_signal_share"] for _, row in rows(found)] == [0.5, 0.0, 1.0, 1.0]
