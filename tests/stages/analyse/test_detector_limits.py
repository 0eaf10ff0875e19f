"""Detectors at their limits: exactly at each threshold and just beyond, and series that no healthy run has."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from run_from import STEPS, CompletionsSummary, RewardCount, Share, ask, ramp, remade, seen

from stages.analyse.detectors import (
    atoms,
    collapse,
    degenerate,
    entropy_change,
    gradient,
    kl_reference,
    kl_sign,
    nonfinite,
    resume_faults,
    spikes,
    throughput,
    true_objective,
    truncation,
    update_size,
    value_fit,
    zero_signal,
)
from stages.analyse.frames import Resume
from stages.contracts.plugin import DETECTORS, kinds, load

# exactly at a threshold, and just beyond ---------------------------------------------------------------------------------------


def _alternating(peak: float) -> dict[int, float]:
    return {step: 98.0 if step % 2 else 102.0 for step in STEPS} | {41: peak}


def _few(n: int, value: float, rest: float) -> dict[int, float]:
    return {step: value if step <= n else rest for step in STEPS}


def _scattered(zeros: int) -> dict[int, float]:
    """So many zeros, with a one in each five or so steps: no streak of them is a tenth of the run."""
    places = sorted(STEPS, key=lambda step: (step % 5 == 0, step % 5 == 1, step))[:zeros]
    return {step: 0.0 if step in places else 1.0 for step in STEPS}


LIMITS: list[tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]] = [  # detector, settings, exactly at it, just beyond
    (entropy_change, {}, {"entropy": ramp(1.0, 0.2)}, {"entropy": ramp(1.0, 0.1999)}),
    (entropy_change, {}, {"entropy": ramp(0.3, 0.9)}, {"entropy": ramp(0.3, 0.9001)}),
    (entropy_change, {"lowest": 0.1}, {"entropy": 0.1}, {"entropy": 0.0999}),
    (entropy_change, {"highest": 0.7}, {"entropy": 0.7}, {"entropy": 0.7001}),
    (degenerate, {}, {"reward": 1.0, "entropy": ramp(1.0, 0.05)}, {"reward": 1.0, "entropy": ramp(1.0, 0.0499)}),
    (
        degenerate,
        {"near": 0.7},
        {"reward": 0.6999, "completion_tokens": ramp(40, 1)},
        {"reward": 0.7, "completion_tokens": ramp(40, 1)},
    ),
    (kl_sign, {}, {"objective.kl": -0.5}, {"objective.kl": -0.5001}),
    (kl_sign, {"share": 0.1}, {"objective.kl": _few(6, -1.0, 1.0)}, {"objective.kl": _few(7, -1.0, 1.0)}),
    (update_size, {}, {"policy.ratio": 1.2}, {"policy.ratio": 1.2001}),
    (update_size, {}, {"policy.ratio": 0.8}, {"policy.ratio": 0.7999}),
    (update_size, {}, {"policy.ratio": 1.1, "policy.first_ratio": 1.02}, {"policy.ratio": 1.1, "policy.first_ratio": 1.0201}),
    (update_size, {"clipped": 0.1}, {"policy.clipfrac": 0.1}, {"policy.clipfrac": 0.1001}),
    (update_size, {}, {"policy.approxkl": 0.05}, {"policy.approxkl": 0.0501}),
    (update_size, {}, {"clip_ratio/region_mean": 0.3}, {"clip_ratio/region_mean": 0.3001}),
    (kl_reference, {}, {"kl": ramp(0.0, 0.5)}, {"kl": ramp(0.0, 0.5001)}),
    (value_fit, {}, {"loss.value": 1.0, "value.explained_variance": 0.0}, {"loss.value": 1.0, "value.explained_variance": -0.001}),
    (spikes, {}, {"grad_norm": _alternating(120.0)}, {"grad_norm": _alternating(120.001)}),
    (spikes, {}, {"grad_norm": _alternating(80.0)}, {"grad_norm": _alternating(79.999)}),
    (collapse, {"at_least": 0.9}, {"zero_signal_share": 0.8999}, {"zero_signal_share": 0.9}),
    (collapse, {"metric": "reward_std", "at_least": None, "below": 0.05}, {"reward_std": 0.05}, {"reward_std": 0.0499}),
    (throughput, {"unknown": 0.1}, {"unknown_share": 0.1}, {"unknown_share": 0.1001}),
    (throughput, {"unknown": 0.7}, {"unknown_share": 0.7}, {"unknown_share": 0.7001}),
    (
        gradient,
        {"share": 0.7},
        {"grad_norm": _scattered(42), "group_range": 0.5},
        {"grad_norm": _scattered(43), "group_range": 0.5},
    ),
    (zero_signal, {"warn_above": 0.7}, {"zero_signal_share": 0.7}, {"zero_signal_share": 0.7001}),
    (truncation, {"warn_above": 0.7, "severe_above": 0.8}, {"truncated": 0.7}, {"truncated": 0.7001}),
]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit[0].__name__.rsplit('.', 1)[1]}-{next(iter(limit[2]))}")
def test_exactly_at_a_threshold_and_just_beyond(limit: tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]) -> None:
    plugin, settings, at, beyond = limit
    quiet, loud = ask(plugin, seen(**at), **settings), ask(plugin, seen(**beyond), **settings)
    assert quiet.state == loud.state == "looked"
    assert [signal for signal in quiet.signals if signal.severity != "info"] == []
    assert [signal.severity for signal in loud.signals if signal.severity != "info"] == [
        "severe" if plugin in (gradient, collapse) else "warning"
    ]


@pytest.mark.parametrize(("k", "severity"), [(9, "warning"), (10, "severe")])
def test_zero_signal_is_severe_above_nine_tenths_of_the_last_window(k: int, severity: str) -> None:
    counts = CompletionsSummary(800, 0, zero_signal=tuple(Share(step, k, 10) for step in range(1, 11)))
    assert [signal.severity for signal in ask(zero_signal, seen(completions=counts)).signals] == [severity]


@pytest.mark.parametrize(("rows", "state"), [(20, "not_applicable"), (21, "looked")])
def test_spikes_need_a_row_after_the_window(rows: int, state: str) -> None:
    assert ask(spikes, seen(grad_norm={step: float(step % 7) for step in range(1, rows + 1)})).state == state


@pytest.mark.parametrize(("taught", "state"), [(2, "not_applicable"), (3, "looked")])
def test_a_gradient_needs_three_steps_with_differing_rewards(taught: int, state: str) -> None:
    detection = ask(gradient, seen(grad_norm=1.0, group_range=_few(taught, 0.5, 0.0)))
    assert detection.state == state and detection.reason.startswith("rewards differ within groups in 2 logged steps") is (taught == 2)


@pytest.mark.parametrize(("step", "signals"), [(0.5, 0), (0.625, 1)])
def test_a_jump_of_exactly_eight_median_jumps_is_none(step: float, signals: int) -> None:
    course = {s: s / 64 + (step + 3 / 64 if s >= 31 else 0.0) for s in STEPS}  # elsewhere every jump is 5/64; here 5/64 + step + 3/64
    assert len(ask(resume_faults, seen(around={"resumes": (Resume(31, 30),)}, reward=course)).signals) == signals


@pytest.mark.parametrize(("shift", "severity"), [(-3.9, "info"), (-4.1, "warning")])
def test_a_negative_kl_lies_four_standard_errors_below_zero(shift: float, severity: str) -> None:
    """Four rows: two batches of two, means m - 1 and m + 1, so the standard error is 1."""
    run = remade(seen(kl={step: shift + (1.0 if step > 2 else -1.0) for step in range(1, 5)}), target_steps=4)
    assert [signal.severity for signal in ask(kl_reference, run).signals] == [severity]


@pytest.mark.parametrize(("fall", "severity"), [(5.6, "info"), (5.7, "warning")])
def test_the_objective_falls_by_more_than_four_standard_errors(fall: float, severity: str) -> None:
    """Windows of four rows with a standard error of 1 each: 4 x sqrt(2) = 5.657."""
    noise = (-1.0, -1.0, 1.0, 1.0)
    before, after = dict(zip(range(1, 5), noise, strict=True)), {step: noise[step - 37] - fall for step in range(37, 41)}
    run = remade(seen(**{"objective.scores": 1.0, "objective.rlhf_reward": before | after}), target_steps=40)
    assert [signal.severity for signal in ask(true_objective, run).signals] == [severity]


# dates -------------------------------------------------------------------------------------------------------------------------


def test_a_lasting_failure_is_known_at_its_third_row_and_not_at_an_earlier_one() -> None:
    run = seen(grad_norm={step: "nan" if step == 5 or step >= 50 else 1.0 for step in STEPS})
    (signal,) = ask(nonfinite, run).signals
    assert (signal.onset, signal.detected, signal.evidence["first"]) == (50, 52, 5)


def test_a_dead_gradient_is_known_where_its_share_is_first_above_the_threshold() -> None:
    """Steps 1 to 10 have a gradient: of 21 steps 11 have none at step 21."""
    (signal,) = ask(gradient, seen(grad_norm=_few(10, 1.0, 0.0), group_range=0.5)).signals
    assert (signal.onset, signal.detected, signal.value) == (11, 21, pytest.approx(50 / 60))
    assert signal.says.startswith("the gradient is exactly 0 in 50 of the 60 steps whose rewards differ within groups")


def test_weights_that_have_a_gradient_between_two_dead_steps_are_connected() -> None:
    """Rewards differ in few steps; in three of them the gradient is 0, and between these it is not."""
    norms = {step: 0.0 if step in (10, 30, 50) else 1.0 for step in STEPS}
    spread = {step: 0.5 if step in (5, 10, 30, 50, 55, 56, 57, 58) else 0.0 for step in STEPS}
    assert ask(gradient, seen(grad_norm=norms, group_range=spread)).signals == ()
    (lost,) = ask(gradient, seen(grad_norm={step: float(not 10 <= step <= 50) for step in STEPS}, group_range=spread)).signals
    assert (lost.onset, lost.last) == (10, 50)


def test_an_early_row_far_off_is_not_the_onset_of_what_the_end_shows() -> None:
    (far,) = ask(kl_reference, seen(kl={step: 0.9 if step in (3, *range(41, 61)) else 0.1 for step in STEPS})).signals
    (low,) = ask(entropy_change, seen(entropy={step: 0.05 if step in (20, *range(41, 61)) else 1.0 for step in STEPS})).signals
    assert (far.onset, low.onset) == (41, 41)
    noisy = {step: 0.1 if step <= 54 else 0.9 if step < 60 else 0.4 for step in STEPS}  # the last row lies below the threshold
    assert ask(kl_reference, seen(kl=noisy)).signals[0].onset == 55


# could not look ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["zero_signal_share", "kl", "grad_norm", "entropy", "truncated", "step_seconds", "policy.ratio"])
@pytest.mark.parametrize(("cell", "words"), [("nan", "is a number"), (None, "is a number"), (0.5, "has no value at a step that counts")])
def test_a_metric_that_was_logged_is_never_said_to_be_missing(metric: str, cell: Any, words: str) -> None:
    detectors = {
        "zero_signal_share": (zero_signal, collapse), "kl": (kl_reference,), "grad_norm": (spikes, gradient), "entropy": (spikes,),
        "truncated": (truncation,), "step_seconds": (throughput,), "policy.ratio": (update_size,),
    }  # fmt: skip
    run = seen(**{"loss": "nan", metric: "nan" if metric == "grad_norm" else cell})
    for plugin in detectors[metric]:
        detection = ask(plugin, run)
        assert detection.state == "not_observable" and not detection.signals, plugin.__name__
        assert ("is a number" if metric == "grad_norm" else words) in detection.reason and "not logged" not in detection.reason


def test_completions_of_steps_that_do_not_count_are_no_evidence_of_health() -> None:
    shares = tuple(Share(step, 0, 8) for step in STEPS)
    rewards = tuple(RewardCount(step, 0.5, 8) for step in STEPS)
    counts = CompletionsSummary(480, 0, zero_signal=shares, truncated=shares, rewards=rewards)
    for plugin in (zero_signal, truncation, atoms):
        detection = ask(plugin, seen(completions=counts, grad_norm="nan"))
        assert (detection.state, detection.reason[:14]) == ("not_observable", "no step counts")


def test_rewards_that_are_nan_are_not_called_null() -> None:
    (nan,), (mixed,) = ask(zero_signal, seen(reward="nan")).signals, ask(zero_signal, seen(reward={3: "nan", 4: None})).signals
    assert nan.says == "no reward: all 60 logged rewards are NaN or Inf, so no step has a reward" and nan.onset == 1
    assert mixed.says == "no reward: all 2 logged rewards are null (1) or NaN or Inf (1), so no step has a reward" and mixed.onset == 3
    (single,) = ask(zero_signal, seen(reward={3: None})).signals
    assert single.says == "no reward: the only logged reward is null, so no completion was ever scored"


@pytest.mark.parametrize("metric", ["truncated", "zero_signal_share", "unknown_share", "policy.clipfrac"])
def test_a_share_above_one_is_no_share(metric: str) -> None:
    plugins = {"truncated": [truncation], "zero_signal_share": [zero_signal, collapse], "unknown_share": [throughput]}
    for plugin in plugins.get(metric, [update_size]):
        detection = ask(plugin, seen(**{metric: _few(59, 0.5, 53.0)}))
        assert (detection.state, detection.signals) == ("not_applicable", ())
        assert detection.reason == f"{metric} is 53 at step 60, and a share lies from 0 to 1: look at its unit"


def test_a_series_that_moves_only_at_the_resume_is_a_fault() -> None:
    moved, still, elsewhere = (
        ask(resume_faults, seen(around={"resumes": (Resume(31, 30),)}, grad_norm=course))
        for course in ({step: 0.0 if step < 31 else 0.3 for step in STEPS}, 0.0, {step: float(step == 50) for step in STEPS})
    )
    says = "grad_norm jumps by 0.3 where the run was resumed at step 31, and moves nowhere else"
    assert [signal.says for signal in moved.signals] == [says] and (still.signals, still.reason) == ((), "")
    assert elsewhere.reason == "usual jump of 0, so there is nothing to measure by: grad_norm"


def test_a_reward_above_the_declared_maximum_moves_the_maximum() -> None:
    run = seen(reward=ramp(1.5, 1.6) | {60: 1.9}, completion_tokens=ramp(40, 2))
    assert ask(degenerate, run).signals == ()  # 1.65 of 1.9 is not the maximum
    (signal,) = ask(degenerate, seen(reward=ramp(0.5, 1.94), completion_tokens=ramp(40, 2))).signals
    assert signal.says.startswith("reward is 1.94 of 1.94 in the last 6 steps")


# series that no healthy run has ------------------------------------------------------------------------------------------------

NAMES = (
    "reward", "reward_std", "group_range", "zero_signal_share", "truncated", "completion_tokens", "entropy", "kl", "grad_norm",
    "policy.clipfrac", "clip_ratio/region_mean", "policy.ratio", "policy.first_ratio", "policy.approxkl", "objective.kl",
    "objective.scores", "objective.rlhf_reward", "loss.value", "value.explained_variance", "step_seconds", "reward_seconds",
    "unknown_share",
)  # fmt: skip
ODD: dict[str, Any] = {
    "zeros": lambda step: 0.0,
    "minus three": lambda step: -3.0,
    "two values": lambda step: float(step % 2),
    "nan": lambda step: "nan",
    "null": lambda step: None,
    "huge": lambda step: 1e150 if step % 2 else -1e150,
    "smallest": lambda step: 5e-324,
    "signed": lambda step: math.sin(step * 7.0),
    "nan every second": lambda step: "nan" if step % 2 else 0.5,
    "nan at last": lambda step: "nan" if step >= 59 else 0.5,
}
LOGGED = {"one": [1], "late": range(40, 61), "sparse": [1, 17, 18, 55], "every fifth": range(5, 61, 5), "all": STEPS}
_ONE = re.compile(r"(?<![\d.])1 (?:steps|rows|values|groups|completions|gaps|such steps)\b|steps (\d+)-\1\b|the last 1 ")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("logged", LOGGED)
def test_no_series_breaks_a_detector_or_its_words(odd: str, logged: str) -> None:
    steps = LOGGED[logged]
    courses = {name: {step: ODD[odd](step) for step in steps} for name in NAMES}
    counts = CompletionsSummary(
        8 * len(steps),
        0,
        zero_signal=tuple(Share(step, step % 3 == 0, 2) for step in steps),
        truncated=tuple(Share(step, step % 5, 8) for step in steps),
        rewards=tuple(RewardCount(step, reward, 4) for step in steps for reward in (0.2, 1.0)),
    )
    around = {"resumes": (Resume(30, 29), Resume(steps[-1], steps[0], 1)), "repeated": 1, "adapter": "zero", "siblings": 2}
    around |= {"same_text": tuple(Share(step, 7, 8) for step in steps), "null_finals": {"kl": (0.1,)}}
    for target in (1, 60):
        for completions in (None, counts):
            run = seen(completions=completions, around={**around, "target_steps": target}, **courses)
            for kind in kinds(DETECTORS):
                detection = ask(load(DETECTORS, kind), run)
                assert detection.state == "looked" or (detection.reason and not detection.signals), kind
                if odd in ("nan", "null") and completions is None and kind != "nonfinite":  # null is finite, or does not apply
                    assert detection.state != "looked" or detection.reason or detection.signals, kind
                assert not _ONE.search(detection.reason), detection.reason
                for signal in detection.signals:
                    numbers = [n for n in (signal.value, *signal.evidence.values()) if isinstance(n, float)]
                    assert all(map(math.isfinite, numbers)), (kind, signal.says)
                    assert not _ONE.search(signal.says), signal.says
                    assert signal.onset is None or signal.detected is None or signal.onset <= signal.detected, (kind, signal.says)
                    assert signal.onset is None or signal.last is None or signal.onset <= signal.last, (kind, signal.says)
