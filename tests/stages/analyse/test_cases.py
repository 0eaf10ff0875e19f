"""Rows of ../shared/cases/README.md that concern analysis, by number. Logs in fixtures/ were written by TRL on a tiny model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from run_from import ask, read_history, run_from
from synthetic import write_history

from stages.analyse.cells import NOT_FINITE, NULL
from stages.analyse.detectors import nonfinite, zero_signal
from stages.analyse.frames import Run
from stages.analyse.health_gates import judge
from stages.contracts.analysis_card import Bound, Windows
from stages.contracts.attempt import Outcome
from stages.contracts.plugin import DETECTORS, kinds, load

FIXTURES = Path(__file__).parents[3].parent / "shared" / "cases" / "fixtures"
OURS = {
    "frac_reward_zero_std": "zero_signal_share",
    "completions/clipped_ratio": "truncated",
    "completions/mean_length": "completion_tokens",
}
PLAIN = ("loss", "grad_norm", "learning_rate", "reward", "reward_std", "kl", "entropy")


def fixture(tmp_path: Path, name: str) -> Run:
    """A TRL log as our history table. Absent keys stay absent; null and NaN stay apart."""
    if not FIXTURES.is_dir():
        pytest.skip("the shared cases are not beside this checkout")
    rows = []
    for line in (FIXTURES / name).read_text().splitlines():
        entry = json.loads(line)
        if "loss" in entry:  # the last row is the trainer's summary
            for key, value in entry.items():
                if key in OURS or key in PLAIN:
                    rows.append(_cell(entry["step"], OURS.get(key, key), value))
    write_history(tmp_path / "history.parquet", rows)
    return read_history(tmp_path / "history.parquet", target_steps=6)


def _cell(step: int, metric: str, value: float | None) -> dict[str, Any]:
    state = "null" if value is None else "value" if math.isfinite(value) else "nonfinite"
    kept = value if state == "value" else None
    return {"attempt": "a1", "step": step, "tokens": None, "seconds": 0.0, "metric": metric, "value": kept, "state": state}


def as_series(run: Run, role: str = "treatment", **more: Any) -> Run:
    states = {NOT_FINITE: "nonfinite", NULL: "null"}
    metrics = {
        name: tuple((step, None if value in states else value, states.get(value, "value")) for step, value in run.logged(name).items())
        for name in run.steps
    }
    return run_from(metrics | more, role=role, target_steps=6)


def _not_persistent(run: Run) -> bool | None:
    return judge("nonfinite", "not persistent", run, None, [ask(nonfinite, run)], Windows()).passed


def test_case_1_persistent_nan_ends_the_valid_range(tmp_path: Path) -> None:
    history = fixture(tmp_path, "nan_persistent_from_3.jsonl")
    run = as_series(history)
    (signal,) = ask(nonfinite, run).signals
    assert (signal.metric, signal.evidence["class"], signal.onset, signal.evidence["count"]) == ("gradient", "persistent", 3, 4)
    assert run.since == 3
    assert run.values("reward").index.tolist() == [1, 2]
    assert run.values("loss").index.tolist() == [1, 2]  # later losses read 0.0 and are no progress
    assert len(history.values("reward").loc[1:6]) == 2
    assert _not_persistent(history) is False


def test_case_2_transient_nan_leaves_the_run_in(tmp_path: Path) -> None:
    history = fixture(tmp_path, "nan_transient_step2_logging1.jsonl")
    run = as_series(history)
    (signal,) = ask(nonfinite, run).signals
    assert (signal.evidence["class"], signal.onset, signal.last, signal.evidence["count"]) == ("transient", 2, 2, 1)
    assert run.values("loss").index.tolist() == [1, 3, 4, 5, 6]
    assert _not_persistent(history) is True


def test_case_4_sparse_rows_are_absent_not_missing(tmp_path: Path) -> None:
    history = fixture(tmp_path, "num_iterations2_sparse_rows.jsonl")
    assert history.logged("reward").index.tolist() == [1, 3, 5]
    assert history.logged("kl").index.tolist() == [1, 2, 3, 4, 5, 6]
    assert history.values("reward").loc[2:2].tolist() == []
    assert history.values("reward").loc[1:3].tolist() == pytest.approx([0.875, 0.8958333730697632])


def test_case_5_no_reward_is_never_healthy_diversity(tmp_path: Path) -> None:
    detection = ask(zero_signal, as_series(fixture(tmp_path, "all_none_reward.jsonl")))
    (signal,) = detection.signals
    assert signal.severity == "severe"
    assert signal.says.startswith("no reward: all 6 logged rewards are null")


def test_case_6_batch_spread_does_not_hide_constant_groups(tmp_path: Path) -> None:
    history = fixture(tmp_path, "group_constant_scale_batch.jsonl")
    assert history.values("zero_signal_share").loc[3:5].tolist() == [0.0, 0.0, 0.0]  # what TRL says under batch scaling
    ours = {"zero_signal_share": tuple((step, 1.0, "value") for step in range(1, 7))}
    ours["group_range"] = tuple((step, 0.0, "value") for step in range(1, 7))
    run = as_series(history, **ours)
    silent, scale = ask(zero_signal, run).signals
    assert (silent.onset, silent.value, silent.severity) == (1, 1.0, "severe")
    assert (scale.metric, scale.onset, scale.evidence) == ("reward_std", 3, {"steps": 3})


@pytest.mark.parametrize(
    ("last", "outcome", "passed", "says"),
    [
        (299, None, None, "unknown (log ends at 299)"),
        (301, 301, False, "contaminated: 301 steps of 300, so a finished run was trained on"),
        (60, 60, False, "60 of 300 steps done although the attempt says finished"),
        (300, 300, True, "300 of 300 steps done"),
    ],
)
def test_cases_11_12_20_steps_done(tmp_path: Path, last: int, outcome: int | None, passed: bool | None, says: str) -> None:
    write_history(tmp_path / "history.parquet", [_cell(step, "reward", 0.5) for step in range(1, last + 1, 2 if last == 299 else 1)])
    state = Outcome(card_id="c", attempt="a1", finished=True, steps_done=outcome, target_steps=300) if outcome else None
    answer = judge("steps", "complete", read_history(tmp_path / "history.parquet", target_steps=300), state, [], Windows())
    assert (answer.passed, answer.says) == (passed, says)


def test_case_9_a_reward_that_raised_at_step_4(tmp_path: Path) -> None:
    history = fixture(tmp_path, "reward_exception_at_step4.jsonl")
    assert history.last_step == 3
    failed = Outcome(
        card_id="c", attempt="a1", finished=False, steps_done=3, target_steps=6, failure="reward", error="ValueError at step 4"
    )
    answer = judge("steps", "complete", history, failed, [], Windows())
    assert (answer.passed, answer.says) == (False, "3 of 6 steps done")


def test_a_healthy_log_raises_no_warning(tmp_path: Path) -> None:
    run = as_series(fixture(tmp_path, "healthy.jsonl"))
    for kind in kinds(DETECTORS):
        plugin = load(DETECTORS, kind)
        warned = [signal for signal in ask(plugin, run).signals if signal.severity != "info"]
        # the tiny model rarely ends its answers and a third of its groups are equal: two warnings that are right, and no others
        assert {signal.metric for signal in warned} <= {"truncated", "zero_signal_share"}, warned


@pytest.mark.parametrize("bound", [0.1, 0.2, 0.3, 0.6, 0.7, 0.9, 0.95])
@pytest.mark.parametrize("target", [30, 60, 70, 100, 120, 300])
def test_a_gate_is_not_passed_by_the_rounding_of_a_sum(tmp_path: Path, bound: float, target: int) -> None:
    """Every row is exactly at the bound, which is neither below nor above it."""
    write_history(tmp_path / "history.parquet", [_cell(step, "truncated", bound) for step in range(1, target + 1)])
    run = read_history(tmp_path / "history.parquet", target_steps=target)
    for rule in ("below", "above"):
        answer = judge("truncated", Bound.model_validate({rule: bound}), run, None, [], Windows())
        assert (answer.passed, answer.says.split(", not ")[1]) == (False, f"{rule} {bound:g}")
