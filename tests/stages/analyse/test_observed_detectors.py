"""The detectors that look beyond single metrics: what they say, and when they cannot say anything. Thresholds: test_detector_limits.py."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from run_from import STEPS, CompletionsSummary, Share, ask, ramp, seen

from stages.analyse.detectors import (
    collapse,
    degenerate,
    duplicates,
    entropy_change,
    gradient,
    kl_reference,
    kl_sign,
    resume_faults,
    throughput,
    true_objective,
    update_size,
    value_fit,
    zero_signal,
)
from stages.analyse.frames import Resume
from stages.contracts.health import Detection

WAVE = {step: 0.01 * (step * 7 % 5 - 2) for step in STEPS}
RESUMED = {"resumes": (Resume(31, 30),)}
IMPORTED = {"imported": True}


def looked(detection: Detection, *signals: tuple[str, str]) -> bool:
    return detection.state == "looked" and [(signal.metric, signal.severity) for signal in detection.signals] == list(signals)


BLIND: list[tuple[Any, dict[str, Any], str, str]] = [  # detector, run, state, a part of the reason
    (degenerate, {"completion_tokens": 2.0}, "not_observable", "reward was not logged"),
    (degenerate, {"reward": 1.0}, "not_observable", "neither length, texts nor entropy were logged"),
    (degenerate, {"reward": {1: 1.0}, "entropy": 1.0}, "not_observable", "reward has no value in the last window"),
    (entropy_change, {"entropy": {1: 1.0}}, "not_observable", "entropy has no value in the last window"),
    (entropy_change, {"entropy": 0.0}, "not_applicable", "entropy is 0 in the first window"),
    (entropy_change, {"entropy": ramp(1.0, -1.0)}, "not_applicable", "entropy is -1 in the last window"),
    (kl_reference, {"kl": {1: 0.1}}, "not_observable", "kl has no value in the last window"),
    (update_size, {"reward": 1.0}, "not_observable", "no clip fraction, ratio or KL of updates was logged"),
    (update_size, {"policy.ratio": 1.0, "policy.first_ratio": 1.01}, "not_applicable", "no information: policy.ratio never moved"),
    (update_size, {"clip_ratio/region_mean": 0.0}, "not_applicable", "or because no update reached the clip range"),
    (collapse, {"zero_signal_share": dict.fromkeys(range(1, 15), 0.5)}, "not_applicable", "steps 1-14: a streak of 15 steps does not fit"),
    (collapse, {"zero_signal_share": dict.fromkeys([*range(1, 21), 30, *range(40, 61)], 0.5)}, "looked", "18 steps in 2 gaps between rows"),
    (gradient, {"around": {"adapter": "changed"}, "grad_norm": 1.0}, "looked", "only the adapter was looked at: no spread of rewards"),
    (gradient, {"grad_norm": 0.0}, "looked", "no spread of rewards within groups was logged"),
    (gradient, {"group_range": 0.5}, "not_observable", "grad_norm was not logged"),
    (gradient, {"grad_norm": 0.0, "group_range": 0.0, "zero_signal_share": 1.0}, "not_applicable", "a zero gradient is right elsewhere"),
    (gradient, {"grad_norm": 0.0, "zero_signal_share": 0.0, "reward_std": 0.0}, "not_applicable", "0 logged steps"),  # as TRL logs null
    (gradient, {"grad_norm": 0.0, "group_range": 0.5, "truncated": 1.0}, "not_applicable", "0 logged steps"),
    (true_objective, {"objective.scores": {1: 0.5}, "objective.rlhf_reward": {1: 0.4}}, "not_observable", "four steps with"),
    (resume_faults, {"reward": WAVE}, "not_applicable", "the run was not resumed"),
    (resume_faults, {"reward": WAVE, "around": IMPORTED}, "not_observable", "does not show whether the run was resumed"),
    (resume_faults, {"reward": WAVE, "around": {"resumes": (Resume(58, 57),)}}, "looked", "too few rows beside a boundary to see"),
    (duplicates, {"reward": ramp(0, 1)}, "not_applicable", "the condition has one seed"),
    (duplicates, {"reward": 0.0, "around": {"siblings": 2}}, "not_applicable", "equal constants prove nothing"),
    (duplicates, {"step_seconds": 1.0}, "not_observable", "nothing that sampling changes was logged"),
    (value_fit, {"value.explained_variance": None, "loss.value": 1.0}, "not_observable", "the returns did not vary"),
]  # fmt: skip


@pytest.mark.parametrize(("detector", "run", "state", "reason"), BLIND)
def test_what_a_detector_cannot_see_is_said(detector: Any, run: dict[str, Any], state: str, reason: str) -> None:
    detection = ask(detector, seen(**run))
    assert detection.state == state and reason in detection.reason, detection.reason


@pytest.mark.parametrize(
    ("detector", "metric", "here"),
    [
        (kl_reference, "kl", "there is no reference model in the loss"),
        (kl_sign, "objective.kl", "there is no KL penalty in the reward"),
        (true_objective, "objective.rlhf_reward", "there is no KL penalty in the reward (PPO only)"),
        (value_fit, "loss.value", "no value head was trained"),
    ],
)
def test_what_an_import_lacks_says_nothing_of_the_run(detector: Any, metric: str, here: str) -> None:
    own, imported = ask(detector, seen(reward=0.5)), ask(detector, seen(around=IMPORTED, reward=0.5))
    assert (own.state, own.reason) == ("not_applicable", f"{metric} was not logged: {here}")
    absent = metric.replace("loss.value", "value.explained_variance")
    reason = f"{absent} was not imported: the source did not log it, or the spec maps no name to it"
    assert (imported.state, imported.reason) == ("not_observable", reason)


# degenerate and entropy_change -------------------------------------------------------------------------------------------------


def test_case_27_a_length_reward_at_its_maximum_with_one_word_answers() -> None:
    run = seen(reward=ramp(0.7, 1.94), completion_tokens=ramp(40, 2.0), reward_std=0.0)
    (signal,) = ask(degenerate, run, maximum=2.0).signals
    assert (signal.metric, signal.severity, signal.value, signal.onset) == ("completion_tokens", "warning", 2.0, 55)
    assert signal.says == "reward is 1.94 of 2 in the last 6 steps while completions are 2 tokens long on average, 40 in the first window"
    (null,) = ask(degenerate, seen("null_control", reward=1.0, completion_tokens=ramp(40, 2))).signals
    assert null.severity == "info" and null.says.endswith("expected for a null control")


@pytest.mark.parametrize(
    ("reward", "first", "last", "signals"),
    [(0.95, 40, 4.9, 1), (0.949, 40, 4.9, 0), (1.0, 40, 5.0, 0), (1.0, 9.8, 4.9, 1), (1.0, 9.7, 4.9, 0), (1.0, 2.0, 2.0, 0)],
)
def test_degenerate_needs_the_maximum_and_a_length_that_fell_to_its_floor(reward: float, first: float, last: float, signals: int) -> None:
    assert len(ask(degenerate, seen(reward=ramp(0.2, reward), completion_tokens=ramp(first, last))).signals) == signals


@pytest.mark.parametrize(("k", "signals"), [(4, 0), (5, 1)])
def test_one_text_for_different_prompts_is_diversity_at_its_floor(k: int, signals: int) -> None:
    detection = ask(degenerate, seen(reward=1.0, around={"same_text": tuple(Share(step, k, 8) for step in STEPS)}))
    says = "62% of completions (30 of 48) are one text of their step, whatever the prompt"
    assert [signal.says.endswith(says) for signal in detection.signals] == [True] * signals


def test_entropy_onset_and_ratio() -> None:
    (signal,) = ask(entropy_change, seen(entropy={step: 0.8 if step <= 30 else 0.08 for step in STEPS})).signals
    assert (signal.onset, signal.severity, signal.evidence["first"]) == (31, "warning", pytest.approx(0.8))
    assert signal.value == pytest.approx(0.1)
    assert signal.says == "entropy went from 0.8 to 0.08 nats per token (mean over the first 6 steps, then over the last 6, ratio 0.1)"


def test_absolute_entropy_only_where_it_is_declared() -> None:
    (signal,) = ask(entropy_change, seen(entropy=0.05), lowest=0.1).signals
    assert signal.says.endswith("below the declared 0.1") and signal.onset == 1 and signal.evidence["outside"] == "below the declared 0.1"
    assert ask(entropy_change, seen(entropy=0.05)).signals == ()


# KL and PPO --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nulls", "says"),
    [
        ((0.05, 0.0004), "null control: 0.0004 to 0.05, so it has not moved further than without a reward"),
        ((0.0004,), "null control: 0.0004"),
        ((), "no null control to hold it against"),
    ],
)
def test_kl_is_held_against_the_null_control(nulls: tuple[float, ...], says: str) -> None:
    (signal,) = ask(kl_reference, seen(around={"null_finals": {"kl": nulls}}, kl=ramp(0, 0.03))).signals
    assert signal.says.endswith(says)
    assert looked(ask(kl_reference, seen("null_control", kl=ramp(0, 0.9))), ("kl", "info"))


def test_the_negative_kl_of_a_report() -> None:
    course = dict(enumerate([2.0] * 478 + [-1.0] * 121 + [-30.55], 1))  # 122 of 600 updates
    (signal,) = ask(kl_sign, seen(**{"objective.kl": course})).signals
    assert (signal.severity, signal.value, signal.onset, signal.last) == ("warning", -30.55, 479, 600)
    assert "below -0.5 nats per completion in 122 of 600 steps, lowest -30.6 at step 600" in signal.says
    assert signal.evidence == {"k": 122, "n": 600}


@pytest.mark.parametrize(
    ("score", "after", "severity"),
    [
        ((0.0, 1.0), (0.0, -0.5), "warning"),
        ((0.0, 1.0), (0.0, 0.5), "info"),
        ((0.0, 1.0), (0.0, 0.0), "info"),
        ((1.0, 0.0), (1.0, -0.5), "info"),
    ],
)
def test_a_score_that_rises_while_the_objective_falls(score: tuple[float, float], after: tuple[float, float], severity: str) -> None:
    ends = {"objective.scores": score, "objective.rlhf_reward": after}
    detection = ask(true_objective, seen(**{name: {s: v + WAVE[s] for s, v in ramp(*pair).items()} for name, pair in ends.items()}))
    assert looked(detection, ("objective.rlhf_reward", severity))
    (signal,) = detection.signals
    assert signal.value == pytest.approx(after[1] - after[0], abs=0.01)
    assert signal.evidence["score"] == pytest.approx(score[1] - score[0], abs=0.01)
    assert signal.says.endswith("the penalty costs more than the score gains") is (severity == "warning")


def test_a_value_head_worse_than_a_constant_at_the_end() -> None:
    course = dict(enumerate([0.5] * 20 + [-2.0] * 11 + [0.3] * 9, 1))
    (signal,) = ask(value_fit, seen(**{"value.explained_variance": course, "loss.value": 1.0})).signals
    assert (signal.severity, signal.value, signal.onset, signal.last) == ("warning", -2.0, 21, 40)
    assert "median explained variance -2 in steps 21-40" in signal.says
    lone = {"value.explained_variance": 0.9}  # an import needs no value loss
    assert ask(value_fit, seen(around=IMPORTED, **lone)).state == "looked"


def test_on_policy_updates_carry_no_information() -> None:
    still = {"policy.clipfrac": 0.0, "policy.ratio": 1.0, "policy.approxkl": 0.0, "clip_ratio/region_mean": 0.0}
    detection = ask(update_size, seen(**still))
    assert detection.state == "not_applicable" and detection.signals == ()
    assert detection.reason.startswith("no information: policy.clipfrac, clip_ratio/region_mean, policy.ratio, policy.approxkl never moved")
    assert looked(ask(update_size, seen(**still, **{"policy.first_ratio": 1.03})), ("policy.first_ratio", "warning"))


def test_detectors_of_groups_do_not_judge_single_completions() -> None:
    run = seen(reward=1.0)
    run.completions = pd.DataFrame({"step": [1, 1, 2, 2], "group": [0, 1, 0, 1], "reward": 1.0, "truncated": False, "text": "x"})
    detection = ask(zero_signal, run)
    assert run.silent.empty and detection.state == "not_applicable" and "one completion a prompt" in detection.reason
    assert ask(collapse, run).state == "not_observable"


# gradient ----------------------------------------------------------------------------------------------------------------------


def test_case_24_no_gradient_although_rewards_differ_is_a_disconnected_adapter() -> None:
    (signal,) = ask(gradient, seen(grad_norm=0.0, reward_std=0.44, zero_signal_share=0.0)).signals
    assert (signal.severity, signal.onset, signal.value) == ("severe", 1, 1.0)
    assert "no trained weight is connected with the loss (this is not collapse)" in signal.says


@pytest.mark.parametrize("metrics", [{"grad_norm": 0.7, "group_range": 0.5, "zero_signal_share": 0.25}, {}])
@pytest.mark.parametrize(("role", "severity"), [("treatment", "severe"), ("null_control", "info")])
def test_an_adapter_of_zeros_trained_nothing(metrics: dict[str, float], role: str, severity: str) -> None:
    assert looked(ask(gradient, seen(role, around={"adapter": "changed"}, **metrics)))
    assert looked(ask(gradient, seen(role, around={"adapter": "zero"}, **metrics)), ("adapter", severity))


# resume_faults, duplicates, throughput -----------------------------------------------------------------------------------------


def test_a_jump_at_a_boundary_is_a_fault_and_one_elsewhere_is_not() -> None:
    course = {step: WAVE[step] + (0.5 if step >= 31 else 0.0) + 0.002 * step for step in STEPS}
    (signal,) = ask(resume_faults, seen(around=RESUMED, reward=course)).signals
    assert (signal.metric, signal.severity, signal.onset, signal.detected) == ("reward", "warning", 31, 35)
    assert signal.value == pytest.approx(0.5 + 0.01)
    assert looked(ask(resume_faults, seen(around={"resumes": (Resume(16, 15),)}, reward=course)))


def test_missing_overlapping_and_repeated_steps() -> None:
    gap, again, twice = (
        ask(resume_faults, seen(around=around, reward=WAVE)).signals
        for around in ({"resumes": (Resume(31, 25),)}, {"resumes": (Resume(200, 199, 13),)}, {"repeated": 4})
    )
    assert [(signal.severity, signal.onset, signal.last, signal.value) for signal in gap] == [("warning", 26, 30, 5.0)]
    assert [signal.says for signal in again] == ["13 steps from step 200 on were made again after the resume; the later attempt's count"]
    assert twice[0].severity == "warning" and twice[0].says.startswith("4 values repeat a metric and a step")


def test_throughput_is_measured_not_judged() -> None:
    completions = CompletionsSummary(480, 0, truncated=tuple(Share(step, 0, 8) for step in STEPS))
    times = {"step_seconds": 2.0, "reward_seconds": 0.5, "generation_seconds": 1.0, "completion_tokens": 30.0}
    (signal,) = ask(throughput, seen(completions=completions, **times)).signals
    assert (signal.severity, signal.value) == ("info", 2.0)
    says = "a step takes 2 s (median of 60 steps, 120 s in all), 50% of it in generation, 25% of it in scoring"
    assert signal.says == f"{says}; 120 generated tokens a second"
    assert signal.evidence == {"last_to_first": 1.0, "scoring_share": 0.25, "tokens_per_second": 120.0, "steps": 60}


@pytest.mark.parametrize(
    ("last", "scoring", "slow", "costly"),
    [(3.0, 0.0, False, False), (3.1, 0.0, True, False), (1.0, 0.5, False, False), (1.0, 0.51, False, True)],
)
def test_throughput_says_what_is_slow_and_never_warns_of_a_busy_machine(last: float, scoring: float, slow: bool, costly: bool) -> None:
    detection = ask(throughput, seen(step_seconds=ramp(1.0, last), reward_seconds=scoring))
    assert looked(detection, ("step_seconds", "info"))
    assert ("times as long as the first" in detection.signals[0].says) == slow
    assert ("more than 50% of the time goes into scoring" in detection.signals[0].says) == costly
