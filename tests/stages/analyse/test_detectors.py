"""Each detector on both sides of its threshold, with the right values."""

from __future__ import annotations

from typing import Any

import pytest
from run_from import CompletionsSummary, RewardCount, Share, ask, seen

from stages.analyse.detectors import atoms, collapse, nonfinite, spikes, truncation, zero_signal


def groups(shares: dict[int, tuple[int, int]], **extra: Any) -> CompletionsSummary:
    counted = tuple(Share(step, k, n) for step, (k, n) in shares.items())
    return CompletionsSummary(completions=sum(n for _, n in shares.values()), unknown=0, **{"zero_signal": counted, **extra})


# zero_signal -------------------------------------------------------------------------------------------------------------------


def test_zero_signal_pools_groups_over_a_window_and_counts_them() -> None:
    shares = {step: ((0, 8) if step <= 20 else (4, 8)) for step in range(1, 31)}
    detection = ask(zero_signal, seen(completions=groups(shares)))
    (signal,) = detection.signals
    # the window 18-27 is the first of ten steps with more than 24 of 80 silent groups: 7 steps x 4 = 28
    assert (signal.onset, signal.detected, signal.value, signal.severity) == (21, 27, 0.5, "warning")
    assert signal.evidence == {"k": 40, "n": 80, "all_k": 40, "all_n": 240}
    assert "50% of groups (40 of 80)" in signal.says


# collapse ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "signals"), [(14, 0), (15, 1)])
def test_collapse_needs_patience_steps(length: int, signals: int) -> None:
    values = {step: 1.0 if 11 <= step < 11 + length else 0.5 for step in range(1, 41)}
    detection = ask(collapse, seen(zero_signal_share=values))
    assert len(detection.signals) == signals
    if signals:
        (signal,) = detection.signals
        assert (signal.onset, signal.detected, signal.last, signal.value, signal.severity) == (11, 25, 25, 15.0, "warning")
        assert signal.evidence["recovered"] is True


def test_collapse_to_the_end_is_severe_and_onset_differs_from_detection() -> None:
    values = {step: float(step >= 20) for step in range(1, 61)}
    (signal,) = ask(collapse, seen(zero_signal_share=values)).signals
    assert (signal.onset, signal.detected, signal.last, signal.severity) == (20, 34, 60, "severe")


@pytest.mark.parametrize(("missing", "detection"), [(4, [(1, 24)]), (5, [(1, 10), (16, 25)]), (60, [(1, 10), (71, 80)])])
def test_steps_that_nobody_logged_are_not_silent(missing: int, detection: list[tuple[int, int]]) -> None:
    """Two silent stretches of ten rows. Rows 5 steps apart are a streak of patience 15, those 6 apart are two that are too short for it."""
    steps = [*range(1, 11), *range(11 + missing, 21 + missing)]
    log = seen(zero_signal_share=dict.fromkeys(steps, 1.0))
    signals = ask(collapse, log, patience=15).signals
    assert [(signal.onset, signal.last) for signal in signals] == (detection if missing == 4 else [])
    if missing > 4:
        apart = ask(collapse, log, patience=10).signals
        assert [(signal.onset, signal.last) for signal in apart] == detection
        assert "rows are missing after it" in apart[0].says and "lasts to the end" in apart[1].says
        assert [signal.severity for signal in apart] == ["warning", "severe"]


# nonfinite ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bad", "kind"), [((9, 10), "transient"), ((8, 9, 10), "persistent")])
def test_nonfinite_persists_from_three_rows_at_the_end(bad: tuple[int, ...], kind: str) -> None:
    detection = seen(grad_norm={step: "nan" if step in bad else 1.0 for step in range(1, 11)})
    (signal,) = ask(nonfinite, detection).signals
    assert (signal.evidence["class"], signal.evidence["count"], signal.onset) == (kind, len(bad), bad[0])
    assert detection.since == (8 if kind == "persistent" else None)


# truncation --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cut", "severity"), [(0, "info"), (24, "info"), (25, "warning"), (40, "warning"), (41, "severe")])
def test_truncation_is_always_reported(cut: int, severity: str) -> None:
    per_step = tuple(Share(step, cut // 10 + (step <= cut % 10), 8) for step in range(1, 11))
    detection = ask(truncation, seen(completions=CompletionsSummary(80, 0, truncated=per_step)))
    (signal,) = detection.signals
    assert (signal.value, signal.severity) == (cut / 80, severity)
    assert f"({cut} of 80)" in signal.says


def test_truncation_onset_is_the_first_step_above_not_the_start_of_the_window() -> None:
    values = {step: 0.0 if step < 40 else 0.95 for step in range(1, 61)}
    (signal,) = ask(truncation, seen(truncated=values)).signals
    # steps 34-43 hold 4 x 0.95 = 0.38 on average
    assert (signal.onset, signal.detected, signal.severity) == (40, 43, "severe")


# spikes ------------------------------------------------------------------------------------------------------------------------


def test_a_huge_gradient_is_one_spike_with_its_step() -> None:
    values: dict[int, float | str | None] = {step: 100.0 + step % 7 for step in range(1, 101)}
    values[80], values[81] = 111.0, 54_648_652.0
    (signal,) = ask(spikes, seen(grad_norm=values), metrics=("grad_norm",)).signals
    assert (signal.onset, signal.value, signal.evidence["steps"]) == (81, 54_648_652.0, [81])
    assert "before clipping" in signal.says


def test_a_constant_series_has_no_spikes_to_speak_of() -> None:
    detection = ask(spikes, seen(grad_norm=dict.fromkeys(range(1, 61), 0.0)))
    assert detection.state == "not_applicable"
    assert "more than half" in detection.reason
    assert ask(spikes, seen(reward={1: 1.0})).state == "not_observable"


# atoms -------------------------------------------------------------------------------------------------------------------------


def _held(counts: dict[float, int], steps: int = 10) -> CompletionsSummary:
    """The same counts of reward values at every step."""
    rewards = tuple(RewardCount(step, value, n) for step in range(1, steps + 1) for value, n in counts.items())
    return CompletionsSummary(sum(counts.values()) * steps, 0, rewards=rewards, examples={0.21: ("let x =", "<script>")})


@pytest.mark.parametrize(("at", "signals"), [(30, 0), (31, 1)])
def test_atoms_hold_more_than_the_declared_share(at: int, signals: int) -> None:
    detection = ask(atoms, seen(completions=_held({0.0: 35, 0.21: at, 0.35: 20, 1.0: 45 - at})))
    assert [signal.value for signal in detection.signals] == [0.21] * signals


def test_an_exploit_that_everything_uses_is_an_atom_and_no_maximum() -> None:
    (signal,) = ask(atoms, seen(completions=_held({0.21: 100}))).signals
    assert (signal.value, signal.evidence["k"], signal.evidence["n"]) == (0.21, 1000, 1000)
