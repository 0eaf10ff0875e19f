"""Each detector on both sides of its threshold, with the right values."""

from __future__ import annotations

from typing import Any

import pytest
from run_from import CompletionsSummary, RewardCount, Share, run_from

from stages.analyse.detectors import atoms, collapse, nonfinite, spikes, truncation, zero_signal
from stages.analyse.frames import Run


def series(role: str = "treatment", completions: CompletionsSummary | None = None, **metrics: dict[int, float | str | None]) -> Run:
    """A run from {step: value}; "nan" is a non-finite cell, None a null one."""
    cells = {
        name: tuple(
            (step, None, "nonfinite") if value == "nan" else (step, None, "null") if value is None else (step, float(value), "value")
            for step, value in sorted(values.items())
        )
        for name, values in metrics.items()
    }
    return run_from(cells, completions, role=role)


def groups(shares: dict[int, tuple[int, int]], **extra: Any) -> CompletionsSummary:
    counted = tuple(Share(step, k, n) for step, (k, n) in shares.items())
    return CompletionsSummary(completions=sum(n for _, n in shares.values()), unknown=0, **{"zero_signal": counted, **extra})


# zero_signal -------------------------------------------------------------------------------------------------------------------


def test_zero_signal_pools_groups_over_a_window_and_counts_them() -> None:
    shares = {step: ((0, 8) if step <= 20 else (4, 8)) for step in range(1, 31)}
    found = zero_signal.detect(zero_signal.Settings(), series(completions=groups(shares)))
    (signal,) = found.signals
    # the window 18-27 is the first of ten steps with more than 24 of 80 silent groups: 7 steps x 4 = 28
    assert (signal.onset, signal.detected, signal.value, signal.severity) == (21, 27, 0.5, "warning")
    assert signal.evidence == {"k": 40, "n": 80, "all_k": 40, "all_n": 240}
    assert "50% of groups (40 of 80)" in signal.says


@pytest.mark.parametrize(("silent", "signals"), [(24, 0), (25, 1)])
def test_zero_signal_threshold_is_a_share_of_pooled_groups(silent: int, signals: int) -> None:
    shares = {step: (silent // 10 + (step <= silent % 10), 8) for step in range(1, 11)}  # 24/80 is 0.30: not above
    assert len(zero_signal.detect(zero_signal.Settings(), series(completions=groups(shares))).signals) == signals


def test_zero_signal_is_expected_of_a_null_control() -> None:
    shares = dict.fromkeys(range(1, 31), (8, 8))
    (signal,) = zero_signal.detect(zero_signal.Settings(), series(role="null_control", completions=groups(shares))).signals
    assert (signal.severity, signal.onset, signal.value) == ("info", 1, 1.0)
    assert "expected for a null control" in signal.says
    (same,) = zero_signal.detect(zero_signal.Settings(), series(completions=groups(shares))).signals
    assert same.severity == "severe"


def test_zero_signal_without_any_spread_logged_is_not_observable() -> None:
    found = zero_signal.detect(zero_signal.Settings(), series(reward={1: 0.5}))
    assert found.state == "not_observable"
    assert found.signals == ()


def test_binary_rewards_with_a_small_spread_have_a_signal() -> None:
    """One of 16 binary rewards differs: standard deviation 0.25, range 1."""
    found = zero_signal.detect(zero_signal.Settings(), series(group_range=dict.fromkeys(range(1, 31), 1.0)))
    assert (found.state, found.signals) == ("looked", ())


def test_rewards_that_are_all_unknown_are_no_reward_whatever_the_shares_say() -> None:
    found = zero_signal.detect(zero_signal.Settings(), series(reward=dict.fromkeys(range(1, 7)), zero_signal_share={1: 0.0}))
    (signal,) = found.signals
    assert (signal.severity, signal.metric) == ("severe", "reward")
    assert signal.says == "no reward: all 6 logged rewards are null, so no completion was ever scored"


# collapse ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "signals"), [(14, 0), (15, 1)])
def test_collapse_needs_patience_steps(length: int, signals: int) -> None:
    values = {step: 1.0 if 11 <= step < 11 + length else 0.5 for step in range(1, 41)}
    found = collapse.detect(collapse.Settings(), series(zero_signal_share=values))
    assert len(found.signals) == signals
    if signals:
        (signal,) = found.signals
        assert (signal.onset, signal.detected, signal.last, signal.value, signal.severity) == (11, 25, 25, 15.0, "warning")
        assert signal.evidence["recovered"] is True


def test_collapse_to_the_end_is_severe_and_onset_differs_from_detection() -> None:
    values = {step: float(step >= 20) for step in range(1, 61)}
    (signal,) = collapse.detect(collapse.Settings(), series(zero_signal_share=values)).signals
    assert (signal.onset, signal.detected, signal.last, signal.severity) == (20, 34, 60, "severe")


@pytest.mark.parametrize(("every", "state"), [(5, "looked"), (6, "not_observable")])
def test_collapse_refuses_a_stride_above_a_third_of_patience(every: int, state: str) -> None:
    values = dict.fromkeys(range(1, 61, every), 1.0)
    found = collapse.detect(collapse.Settings(patience=15), series(zero_signal_share=values))
    assert found.state == state
    assert (found.reason == "") is (state == "looked")


@pytest.mark.parametrize(("missing", "found"), [(4, [(1, 24)]), (5, [(1, 10), (16, 25)]), (60, [(1, 10), (71, 80)])])
def test_steps_that_nobody_logged_are_not_silent(missing: int, found: list[tuple[int, int]]) -> None:
    """Two silent stretches of ten rows. Rows 5 steps apart are a streak of patience 15, those 6 apart are two that are too short for it."""
    steps = [*range(1, 11), *range(11 + missing, 21 + missing)]
    log = series(zero_signal_share=dict.fromkeys(steps, 1.0))
    signals = collapse.detect(collapse.Settings(patience=15), log).signals
    assert [(signal.onset, signal.last) for signal in signals] == (found if missing == 4 else [])
    if missing > 4:
        apart = collapse.detect(collapse.Settings(patience=10), log).signals
        assert [(signal.onset, signal.last) for signal in apart] == found
        assert "rows are missing after it" in apart[0].says and "lasts to the end" in apart[1].says
        assert [signal.severity for signal in apart] == ["warning", "severe"]


@pytest.mark.parametrize(("rows", "signals"), [(7, 0), (8, 1)])
def test_patience_counts_steps_not_rows(rows: int, signals: int) -> None:
    """Every second step is logged: 8 silent rows cover 15 steps, 7 cover 13."""
    values = {step: float(11 <= step < 11 + 2 * rows) for step in range(1, 61, 2)}
    found = collapse.detect(collapse.Settings(), series(zero_signal_share=values)).signals
    assert [(signal.onset, signal.detected, signal.value) for signal in found] == [(11, 25, 15.0)] * signals


# nonfinite ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bad", "kind"), [((9, 10), "transient"), ((8, 9, 10), "persistent")])
def test_nonfinite_persists_from_three_rows_at_the_end(bad: tuple[int, ...], kind: str) -> None:
    found = series(grad_norm={step: "nan" if step in bad else 1.0 for step in range(1, 11)})
    (signal,) = nonfinite.detect(nonfinite.Settings(), found).signals
    assert (signal.evidence["class"], signal.evidence["count"], signal.onset) == (kind, len(bad), bad[0])
    assert found.since == (8 if kind == "persistent" else None)


def test_a_skipped_step_counts_as_non_finite_though_its_loss_reads_zero() -> None:
    found = series(loss={1: 0.1, 2: 0.0, 3: 0.2}, skipped={1: 0.0, 2: 1.0, 3: 0.0}, reward={1: 0.5, 2: 0.9, 3: 0.6})
    (signal,) = nonfinite.detect(nonfinite.Settings(), found).signals
    assert (signal.metric, signal.onset, signal.last, signal.evidence["class"]) == ("gradient", 2, 2, "transient")
    assert found.values("reward").to_dict() == {1: 0.5, 3: 0.6}


def test_nothing_non_finite_means_looked_and_found_none() -> None:
    found = nonfinite.detect(nonfinite.Settings(), series(grad_norm={1: 0.0, 2: 0.0}, kl={1: None, 2: None}))
    assert (found.state, found.signals) == ("looked", ())
    assert nonfinite.detect(nonfinite.Settings(), series()).state == "not_observable"


# truncation --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cut", "severity"), [(0, "info"), (24, "info"), (25, "warning"), (40, "warning"), (41, "severe")])
def test_truncation_is_always_reported(cut: int, severity: str) -> None:
    per_step = tuple(Share(step, cut // 10 + (step <= cut % 10), 8) for step in range(1, 11))
    found = truncation.detect(truncation.Settings(), series(completions=CompletionsSummary(80, 0, truncated=per_step)))
    (signal,) = found.signals
    assert (signal.value, signal.severity) == (cut / 80, severity)
    assert f"({cut} of 80)" in signal.says


def test_truncation_onset_is_the_first_step_above_not_the_start_of_the_window() -> None:
    values = {step: 0.0 if step < 40 else 0.95 for step in range(1, 61)}
    (signal,) = truncation.detect(truncation.Settings(), series(truncated=values)).signals
    # steps 34-43 hold 4 x 0.95 = 0.38 on average
    assert (signal.onset, signal.detected, signal.severity) == (40, 43, "severe")


def test_truncation_not_logged_is_not_observable() -> None:
    assert truncation.detect(truncation.Settings(), series(reward={1: 1.0})).state == "not_observable"


# spikes ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("peak", "signals"), [(119.9, 0), (120.1, 1)])
def test_spikes_are_measured_in_mads_from_the_rolling_median(peak: float, signals: int) -> None:
    """Values alternate between 98 and 102: median 100, MAD 2, so the bound of 10 MADs is 120."""
    values: dict[int, float | str | None] = {step: 98.0 if step % 2 else 102.0 for step in range(1, 61)}
    values[41] = peak
    found = spikes.detect(spikes.Settings(metrics=("grad_norm",)), series(grad_norm=values))
    assert [(signal.onset, signal.value) for signal in found.signals] == [(41, peak)] * signals


def test_a_huge_gradient_is_one_spike_with_its_step() -> None:
    values: dict[int, float | str | None] = {step: 100.0 + step % 7 for step in range(1, 101)}
    values[80], values[81] = 111.0, 54_648_652.0
    (signal,) = spikes.detect(spikes.Settings(metrics=("grad_norm",)), series(grad_norm=values)).signals
    assert (signal.onset, signal.value, signal.evidence["steps"]) == (81, 54_648_652.0, [81])
    assert "before clipping" in signal.says


@pytest.mark.parametrize(("flagged", "state"), [(10, "looked"), (11, "not_applicable")])
def test_spikes_in_more_than_a_tenth_of_the_rows_are_no_spikes(flagged: int, state: str) -> None:
    values: dict[int, float | str | None] = {step: float(step % 5) for step in range(1, 101)}
    values |= {24 + 7 * index: 1000.0 for index in range(flagged)}
    found = spikes.detect(spikes.Settings(metrics=("loss",)), series(loss=values))
    assert found.state == state
    assert len(found.signals) == (state == "looked")


def test_a_constant_series_has_no_spikes_to_speak_of() -> None:
    found = spikes.detect(spikes.Settings(), series(grad_norm=dict.fromkeys(range(1, 61), 0.0)))
    assert found.state == "not_applicable"
    assert "more than half" in found.reason
    assert spikes.detect(spikes.Settings(), series(reward={1: 1.0})).state == "not_observable"


# atoms -------------------------------------------------------------------------------------------------------------------------


def _held(counts: dict[float, int], steps: int = 10) -> CompletionsSummary:
    """The same counts of reward values at every step."""
    rewards = tuple(RewardCount(step, value, n) for step in range(1, steps + 1) for value, n in counts.items())
    return CompletionsSummary(sum(counts.values()) * steps, 0, rewards=rewards, examples={0.21: ("let x =", "<script>")})


@pytest.mark.parametrize(("at", "signals"), [(30, 0), (31, 1)])
def test_atoms_hold_more_than_the_declared_share(at: int, signals: int) -> None:
    found = atoms.detect(atoms.Settings(), series(completions=_held({0.0: 35, 0.21: at, 0.35: 20, 1.0: 45 - at})))
    assert [signal.value for signal in found.signals] == [0.21] * signals


def test_zero_and_the_maximum_are_no_atoms() -> None:
    assert atoms.detect(atoms.Settings(), series(completions=_held({0.0: 50, 1.0: 50}))).signals == ()
    length_reward = atoms.detect(atoms.Settings(), series(completions=_held({0.0: 20, 1.0: 40, 2.0: 40})))
    assert [signal.value for signal in length_reward.signals] == [1.0]  # the maximum is 2.0 here


def test_an_exploit_that_everything_uses_is_an_atom_and_no_maximum() -> None:
    (signal,) = atoms.detect(atoms.Settings(), series(completions=_held({0.21: 100}))).signals
    assert (signal.value, signal.evidence["k"], signal.evidence["n"]) == (0.21, 1000, 1000)


def test_atoms_need_completions() -> None:
    assert atoms.detect(atoms.Settings(), series(reward={1: 0.2})).state == "not_observable"
