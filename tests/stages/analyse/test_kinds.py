"""Rows of ../shared/cases/README.md, each for its whole kind: not the numbers of a report but what must hold of any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from healthy import healthy
from run_from import Cell, CompletionsSummary, RewardCount, Share, ask, read_history, remade, run_from
from synthetic import CONDITIONS, claim_rule, write_history

from stages.analyse.detectors import atoms, collapse, degenerate, kl_reference, spikes, zero_signal
from stages.analyse.frames import Run
from stages.analyse.verdicts import refusal
from stages.contracts.claim import Contrast
from stages.contracts.history import METRICS
from stages.contracts.plugin import DETECTORS, kinds, load


def observed(role: str = "treatment", target: int = 150, completions: CompletionsSummary | None = None, **metrics: Any) -> Run:
    cells = {name: tuple((step, value, "value") for step, value in enumerate(values, 1)) for name, values in metrics.items()}
    return run_from(cells, completions, role=role, target_steps=target)


def poisoned(run: Run, bad: set[int], rng: np.random.Generator | None) -> Run:
    """The run with a gradient that is NaN at the bad steps; with a generator, everything else at those steps is garbage."""

    def cell(name: str, step: int, value: float | None, state: str) -> Cell:
        if step in bad and name == "grad_norm":
            return step, None, "nonfinite"
        return (step, float(rng.normal(0, 1e6)), "value") if step in bad and rng is not None else (step, value, state)

    metrics = {name: tuple(cell(name, *own) for own in cells) for name, cells in run.given["metrics"].items()}  # type: ignore[attr-defined]
    summary = run.given["completions"]  # type: ignore[attr-defined]
    if rng is not None:
        silent, cut = (tuple(Share(s, n if s in bad else k, n) for s, k, n in own) for own in (summary.zero_signal, summary.truncated))
        rewards = tuple(RewardCount(s, 0.77 if s in bad else value, n) for s, value, n in summary.rewards)
        summary = replace(summary, zero_signal=silent, truncated=cut, rewards=rewards)
    return remade(run, metrics=metrics, completions=summary)


@pytest.mark.parametrize("ppo", [False, True])
@pytest.mark.parametrize("bad", [set(range(151, 301)), set(range(298, 301)), {7}, {20, 21, 150, 299, 300}])
def test_cases_1_and_2_nothing_that_a_broken_step_holds_is_seen_by_any_detector(ppo: bool, bad: set[int]) -> None:
    run = healthy(np.random.default_rng([3, ppo]), ppo)
    clean, garbage = poisoned(run, bad, None), poisoned(run, bad, np.random.default_rng(1))
    assert clean.since == (min(bad) if len(bad) > 2 and 298 in bad else None)
    for kind in kinds(DETECTORS):
        plugin = load(DETECTORS, kind)
        assert ask(plugin, garbage) == ask(plugin, clean), kind


@pytest.mark.parametrize("seed", range(8))
def test_case_8_what_a_null_control_shows_is_expected(seed: int) -> None:
    """Constant rewards of any height, groups without spread, one text for all, an adapter of zeros: information, and no warning."""
    rng = np.random.default_rng(seed)
    height, steps = float(rng.choice([0.0, 0.3, 0.5, 1.0])), range(1, 61)
    counts = CompletionsSummary(
        60 * 8,
        0,
        zero_signal=tuple(Share(step, 2, 2) for step in steps),
        truncated=tuple(Share(step, 0, 8) for step in steps),
        rewards=tuple(RewardCount(step, height, 8) for step in steps),
    )
    run = observed(
        "null_control",
        60,
        counts,
        reward=[height] * 60,
        zero_signal_share=[1.0] * 60,
        group_range=[0.0] * 60,
        reward_std=[0.0] * 60,
        grad_norm=[0.0] * 60,
        completion_tokens=[30.0] * 30 + [2.0] * 30,
        entropy=[1.0] * 30 + [0.001] * 30,
        kl=[0.0] * 60,
    )
    run = remade(run, adapter="zero", same_text=tuple(Share(step, 8, 8) for step in steps))
    for kind in kinds(DETECTORS):
        plugin = load(DETECTORS, kind)
        for signal in ask(plugin, run).signals:
            assert signal.severity == "info", (kind, signal.says)


@pytest.mark.parametrize("patience", [1, 3, 6, 15, 40])
@pytest.mark.parametrize("distance", [1, 2, 5, 7])
@pytest.mark.parametrize("first", [1, 4])
def test_case_10_patience_counts_steps_at_any_distance_of_rows(patience: int, distance: int, first: int) -> None:
    steps = range(first, first + 20 * distance, distance)
    silent = tuple((step, 1.0, "value") for step in steps)
    run = run_from({"zero_signal_share": silent}, target_steps=300)
    detection = ask(collapse, run, patience=patience)
    if distance > patience / 3:
        assert detection.state == "not_observable" and f"every {distance} steps" in detection.reason
        return
    if steps[-1] - first + 1 < patience:
        assert detection.state == "not_applicable" and detection.reason.endswith(f"a streak of {patience} steps does not fit")
        return
    (signal,) = detection.signals
    assert (signal.onset, signal.last) == (first, steps[-1])
    assert signal.detected == min(step for step in steps if step - first + 1 >= patience)


@pytest.mark.parametrize("seed", range(6))
def test_case_13_a_spike_is_one_in_any_unit_and_with_any_sign(seed: int) -> None:
    """Values are multiples of 1/1024, so that shifts and scales by powers of two are exact."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(0, 40, 150)) / 1024
    values[[40, 90]] += 3.0

    def steps(series: np.ndarray[Any, Any]) -> Any:
        detection = ask(spikes, observed(loss=series.tolist()), metrics=("loss",))
        return [signal.evidence["steps"] for signal in detection.signals]

    assert steps(values) == [[41, 91]]
    for same in (-values, values * 4096, values / 4096, values - 8, 16 - values, values[:] + 0.0):
        assert steps(same) == steps(values)


@pytest.mark.parametrize("k", [0.5, 1.0, 2.0, 3.0])
def test_case_14_no_series_has_more_spikes_than_the_share_allowed(k: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        series = rng.normal(0, 1, 150) * np.where(rng.random(150) < rng.random(), 20, 1)
        detection = ask(spikes, observed(loss=series.tolist()), metrics=("loss",), k=k)
        counted = [len(signal.evidence["steps"]) for signal in detection.signals]
        assert sum(counted) <= 0.1 * 150
        assert counted or detection.state == "not_applicable" or detection.signals == ()


def test_case_17_any_single_difference_makes_two_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    names, shared = ("reward", "completion_tokens", "entropy", "kl", "grad_norm"), {"attempt": "a", "tokens": None, "seconds": 0.0}
    rows = [
        {**shared, "step": step, "metric": name, "value": float(rng.normal()), "state": "value"} for step in range(1, 21) for name in names
    ]

    def print_of(changed: list[dict[str, Any]]) -> str | None:
        write_history(tmp_path / "history.parquet", changed)
        return read_history(tmp_path / "history.parquet").fingerprint

    same = print_of(rows)
    for place in rng.choice(len(rows), 15, replace=False):
        other = [dict(row) for row in rows]
        other[place] |= [{"value": np.nextafter(rows[place]["value"], 9)}, {"value": None, "state": "null"}, {"step": 99}][place % 3]
        assert print_of(other) != same
        assert print_of([row for index, row in enumerate(rows) if index != place]) != same
    assert print_of([dict(row) for row in rows]) == same


@pytest.mark.parametrize("attempts", range(2, 5))
def test_case_18_each_step_belongs_to_the_last_attempt_that_began_before_it(tmp_path: Path, attempts: int) -> None:
    rng = np.random.default_rng(attempts)
    for _ in range(6):
        begins = [1, *sorted(int(step) for step in rng.integers(2, 60, attempts - 1))]
        ends = [int(rng.integers(begin, 80)) for begin in begins]
        rows = [
            {"attempt": f"x{9 - number}", "step": step, "tokens": None, "seconds": 0.0, "metric": "reward", "state": "value"}
            | {"value": float(number)}
            for number, (begin, end) in enumerate(zip(begins, ends, strict=True))
            for step in range(begin, end + 1)
        ]
        write_history(tmp_path / "history.parquet", rows)
        for step, owner in read_history(tmp_path / "history.parquet").values("reward").items():
            assert owner == max(number for number, begin in enumerate(begins) if begin <= step)


@pytest.mark.parametrize("scale", [0.001, 1.0, 1000.0])
def test_cases_22_and_23_a_negative_kl_is_judged_by_its_error_and_not_by_its_size(scale: float) -> None:
    noise = np.random.default_rng(4).normal(0, scale, 200)
    quiet = ask(kl_reference, observed(target=200, kl=noise.tolist()), above=1e9)
    assert [signal.severity for signal in quiet.signals] == ["info"]
    (warning,) = ask(kl_reference, observed(target=200, kl=(noise - scale).tolist())).signals
    assert warning.severity == "warning" and warning.says.startswith("estimate negative: sampling and scoring differ")


@pytest.mark.parametrize("value", [-1.0, 1e-9, 0.21, 0.999999, 3.5])
def test_case_26_any_value_but_none_and_the_highest_is_an_atom(value: float) -> None:
    def atom_values(middle: float) -> list[float | None]:
        held = [RewardCount(step, reward, n) for step in range(1, 21) for reward, n in ((0.0, 3), (middle, 4), (4.0, 3))]
        run = observed(completions=CompletionsSummary(200, 0, rewards=tuple(held)))
        return [signal.value for signal in ask(atoms, run, share=0.35).signals]

    assert atom_values(value) == [value]
    assert atom_values(5.0) == []  # a higher one that was seen is the maximum


@pytest.mark.parametrize("maximum", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("tokens", "warned"), [(2.0, True), (40.0, False)])
def test_case_27_full_reward_of_any_height_with_short_answers(maximum: float, tokens: float, warned: bool) -> None:
    run = observed(target=100, reward=[0.97 * maximum] * 100, completion_tokens=[40.0] * 50 + [tokens] * 50)
    detection = ask(degenerate, run, maximum=maximum)
    assert bool(detection.signals) is warned
    low = observed(target=100, reward=[0.94 * maximum] * 100, completion_tokens=[40.0] * 50 + [tokens] * 50)
    assert ask(degenerate, low, maximum=maximum).signals == ()


@pytest.mark.parametrize("shown", [0.0, 0.25, 7.0])
def test_cases_5_and_6_the_spread_of_the_batch_decides_nothing(shown: float) -> None:
    """Whatever reward_std says: groups without a difference have no signal, groups with one have it, and no reward is no signal."""
    same = observed(reward=[0.5] * 150, reward_std=[shown] * 150, group_range=[0.0] * 150, zero_signal_share=[1.0] * 150)
    other = observed(reward=[0.5] * 150, reward_std=[shown] * 150, group_range=[1.0] * 150, zero_signal_share=[0.0] * 150)
    (first, *_) = ask(zero_signal, same).signals
    assert (first.value, first.severity) == (1.0, "severe")
    assert ask(zero_signal, other).signals == ()
    null = tuple((step, None, "null") for step in range(1, 151))
    (none,) = ask(zero_signal, remade(other, metrics={**other.given["metrics"], "reward": null})).signals
    assert none.severity == "severe" and none.says.startswith("no reward")


@pytest.mark.parametrize("metric", sorted(name for name, metric in METRICS.items() if metric.unit in ("reward", "reward squared")))
@pytest.mark.parametrize("statistic", ["final", "change"])
@pytest.mark.parametrize("against", ["zero", "random", "inverted"])
def test_case_44_no_two_rewards_are_ranked_by_any_measure_of_reward(metric: str, statistic: str, against: str) -> None:
    pair = Contrast(condition="shaped", against=against)
    claim = claim_rule(id="x", metric=metric, statistic=statistic, contrast=pair, direction="above", margin=0.0, seeds=3)  # type: ignore[arg-type]
    refused = refusal(claim, CONDITIONS)
    if statistic == "change" and against == "zero":
        assert refused == ""  # a null control's change is the noise that another one is held against
    else:
        assert refused.startswith(f"shaped and {against} have different rewards")
    same = tuple(condition.model_copy(update={"reward": "one"}) for condition in CONDITIONS)
    assert refusal(claim, same) == ""
    assert refusal(claim.model_copy(update={"metric": "completion_tokens"}), CONDITIONS) == ""
