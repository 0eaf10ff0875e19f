"""The detectors that look beyond single metrics, on both sides of their thresholds: what they say, and when they cannot say anything."""

from __future__ import annotations

from typing import Any

import pytest
import test_detectors
from run_from import CompletionsSummary, Share, remade

from stages.analyse.detectors import (
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
)
from stages.analyse.frames import Resume, Run
from stages.contracts.health import Detection

STEPS = range(1, 61)


def seen(role: str = "treatment", around: dict[str, Any] | None = None, **metrics: Any) -> Run:
    """A run of 60 target steps; a metric is {step: value}, or one value for all steps."""
    courses = {name: value if isinstance(value, dict) else dict.fromkeys(STEPS, value) for name, value in metrics.items()}
    return remade(test_detectors.series(role, **courses), **(around or {}))


def ramp(first: float, last: float) -> dict[int, float]:
    """Flat for the first six steps, flat for the last six, a line between."""
    return {step: first + (last - first) * min(1.0, max(0.0, (step - 6) / 49)) for step in STEPS}


def looked(found: Detection, *signals: tuple[str, str]) -> bool:
    return found.state == "looked" and [(s.metric, s.severity) for s in found.signals] == list(signals)


# degenerate --------------------------------------------------------------------------------------------------------------------


def degenerates(settings: dict[str, Any] | None = None, **more: Any) -> Detection:
    return degenerate.detect(degenerate.Settings(**(settings or {})), seen(**more))


def test_case_27_a_length_reward_at_its_maximum_with_one_word_answers() -> None:
    found = degenerates({"maximum": 2.0}, reward=ramp(0.7, 1.94), completion_tokens=ramp(40, 2.0), reward_std=0.0)
    (signal,) = found.signals
    assert (signal.metric, signal.severity, signal.value, signal.onset) == ("completion_tokens", "warning", 2.0, 55)
    assert signal.says == "reward is 1.94 of 2 in the last 6 steps while completions are 2 tokens long on average, 40 in the first window"


@pytest.mark.parametrize(
    ("reward", "first", "last", "signals"),
    [(0.95, 40, 4.9, 1), (0.949, 40, 4.9, 0), (1.0, 40, 5.0, 0), (1.0, 9.8, 4.9, 1), (1.0, 9.7, 4.9, 0), (1.0, 2.0, 2.0, 0)],
)
def test_degenerate_needs_the_maximum_and_a_length_that_fell_to_its_floor(reward: float, first: float, last: float, signals: int) -> None:
    assert len(degenerates(reward=ramp(0.2, reward), completion_tokens=ramp(first, last)).signals) == signals


@pytest.mark.parametrize(("k", "signals"), [(4, 0), (5, 1)])
def test_one_text_for_different_prompts_is_diversity_at_its_floor(k: int, signals: int) -> None:
    found = degenerates(reward=1.0, around={"same_text": tuple(Share(step, k, 8) for step in STEPS)})
    assert len(found.signals) == signals
    assert all(
        signal.says.endswith("62% of completions (30 of 48) are one text of their step, whatever the prompt") for signal in found.signals
    )


@pytest.mark.parametrize(("last", "signals"), [(0.051, 0), (0.049, 1)])
def test_degenerate_entropy_is_a_ratio_to_the_first_window(last: float, signals: int) -> None:
    assert len(degenerates(reward=1.0, entropy=ramp(1.0, last)).signals) == signals


def test_degenerate_says_what_it_cannot_see() -> None:
    assert degenerates(completion_tokens=2.0).reason == "reward was not logged"
    assert degenerates(reward=1.0).reason == "neither length, texts nor entropy were logged"
    assert degenerates(reward={1: 1.0}, entropy=1.0).reason == "reward has no value in the last window"
    (signal,) = degenerates(role="null_control", reward=1.0, completion_tokens=ramp(40, 2)).signals
    assert signal.severity == "info" and signal.says.endswith("expected for a null control")


# entropy_change ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "signals"), [(0.21, 0), (0.19, 1), (2.9, 0), (3.1, 1)])
def test_entropy_is_compared_with_the_runs_own_first_window(last: float, signals: int) -> None:
    found = entropy_change.detect(entropy_change.Settings(), seen(entropy=ramp(1.0, last)))
    assert found.state == "looked" and len(found.signals) == signals


def test_entropy_onset_and_ratio() -> None:
    course = {step: 0.8 if step <= 30 else 0.08 for step in STEPS}
    (signal,) = entropy_change.detect(entropy_change.Settings(), seen(entropy=course)).signals
    assert (signal.onset, signal.severity, signal.evidence["first"]) == (31, "warning", pytest.approx(0.8))
    assert signal.value == pytest.approx(0.1)
    assert signal.says == "entropy went from 0.8 to 0.08 nats per token (mean over the first 6 steps, then over the last 6, ratio 0.1)"


def test_absolute_entropy_only_where_it_is_declared() -> None:
    run = seen(entropy=0.05)
    assert entropy_change.detect(entropy_change.Settings(), run).signals == ()
    (signal,) = entropy_change.detect(entropy_change.Settings(lowest=0.1), run).signals
    assert signal.says.endswith("below the declared 0.1") and signal.onset == 1 and signal.evidence["outside"] == "below the declared 0.1"
    assert entropy_change.detect(entropy_change.Settings(highest=0.04), run).signals[0].says.endswith("above the declared 0.04")


def test_entropy_without_a_window_or_a_base() -> None:
    assert entropy_change.detect(entropy_change.Settings(), seen(entropy={1: 1.0})).state == "not_observable"
    assert entropy_change.detect(entropy_change.Settings(), seen(entropy=0.0)).state == "not_applicable"
    assert entropy_change.detect(entropy_change.Settings(), seen(entropy=ramp(1.0, -1.0))).reason.startswith("entropy is -1 in the last")


# kl_reference ------------------------------------------------------------------------------------------------------------------


def kl(nulls: tuple[float, ...] = (), role: str = "treatment", **metrics: Any) -> Detection:
    return kl_reference.detect(kl_reference.Settings(), seen(role, {"null_finals": {"kl": nulls}}, **metrics))


def test_case_22_a_negative_estimate_is_a_mismatch_of_sampling_and_scoring() -> None:
    (signal,) = kl(kl={step: -30 + (step % 3) for step in STEPS}).signals
    assert (signal.severity, signal.onset, signal.value) == ("warning", 1, -29.0)
    assert signal.says.startswith("estimate negative: sampling and scoring differ") and "impossible" not in signal.says


def test_case_23_a_slightly_negative_start_is_no_finding() -> None:
    course = {step: (-0.07 if step <= 3 else 0.01 * (step % 5 - 2)) for step in STEPS}
    assert looked(kl(kl=course), ("kl", "info"))
    assert "k1, which may be negative" in kl(kl=course).signals[0].says


@pytest.mark.parametrize(("last", "severity"), [(0.5, "info"), (0.51, "warning")])
def test_kl_threshold(last: float, severity: str) -> None:
    assert looked(kl(kl=ramp(0.0, last)), ("kl", severity))


def test_kl_is_held_against_the_null_control() -> None:
    assert (
        "null control: 0.0004 to 0.05, so it has not moved further than without a reward"
        in kl((0.05, 0.0004), kl=ramp(0, 0.03)).signals[0].says
    )
    assert kl((0.0004,), kl=ramp(0, 0.03)).signals[0].says.endswith("null control: 0.0004")
    assert kl(kl=ramp(0, 0.03)).signals[0].says.endswith("no null control to hold it against")
    assert looked(kl(role="null_control", kl=ramp(0, 0.9)), ("kl", "info"))
    assert kl(reward=0.5).reason == "kl was not logged: there is no reference model in the loss"
    assert kl(kl={1: 0.1}).state == "not_observable"


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
    own = detector.detect(detector.Settings(), seen(reward=0.5))
    assert (own.state, own.reason) == ("not_applicable", f"{metric} was not logged: {here}")
    other = detector.detect(detector.Settings(), seen(around={"imported": True}, reward=0.5))
    assert other.state == "not_observable"
    absent = metric.replace("loss.value", "value.explained_variance")
    assert other.reason == f"{absent} was not imported: the source did not log it, or the spec maps no name to it"


def test_explained_variance_of_an_import_needs_no_value_loss() -> None:
    lone = {"value.explained_variance": 0.9}
    assert value_fit.detect(value_fit.Settings(), seen(around={"imported": True}, **lone)).state == "looked"


# update_size -------------------------------------------------------------------------------------------------------------------


def update(**metrics: Any) -> Detection:
    return update_size.detect(update_size.Settings(), seen(**metrics))


def test_on_policy_updates_carry_no_information() -> None:
    found = update(**{"policy.clipfrac": 0.0, "policy.ratio": 1.0, "policy.approxkl": 0.0, "clip_ratio/region_mean": 0.0})
    assert found.state == "not_applicable" and found.signals == ()
    assert found.reason.startswith("no information: policy.clipfrac, clip_ratio/region_mean, policy.ratio, policy.approxkl never moved")


@pytest.mark.parametrize(
    ("metric", "quiet", "loud"),
    [
        ("policy.clipfrac", 0.3, 0.31),
        ("clip_ratio/region_mean", 0.3, 0.31),
        ("policy.ratio", 0.81, 0.79),
        ("policy.ratio", 1.19, 1.21),
        ("policy.approxkl", 0.05, 0.051),
    ],
)
def test_update_size_thresholds(metric: str, quiet: float, loud: float) -> None:
    assert looked(update(**{metric: quiet}))
    found = update(**{metric: {step: quiet if step <= 20 else loud for step in STEPS}})
    assert looked(found, (metric, "warning")) and found.signals[0].detected in range(21, 31)


def test_a_first_ratio_off_one_is_seen_even_on_policy() -> None:
    found = update(**{"policy.ratio": 1.0, "policy.first_ratio": 1.03})
    assert looked(found, ("policy.first_ratio", "warning"))
    assert update(**{"policy.ratio": 1.0, "policy.first_ratio": 1.01}).state == "not_applicable"
    assert update(reward=1.0).state == "not_observable"


# gradient ----------------------------------------------------------------------------------------------------------------------


def grad(adapter: str = "unknown", role: str = "treatment", **metrics: Any) -> Detection:
    return gradient.detect(gradient.Settings(), seen(role, {"adapter": adapter}, **metrics))


def test_case_24_no_gradient_although_rewards_differ_is_a_disconnected_adapter() -> None:
    (signal,) = grad(grad_norm=0.0, reward_std=0.44, zero_signal_share=0.0).signals
    assert (signal.severity, signal.onset, signal.value) == ("severe", 1, 1.0)
    assert "no trained weight is connected with the loss (this is not collapse)" in signal.says


@pytest.mark.parametrize(("dead", "signals"), [(30, 0), (31, 1)])
def test_gradient_threshold_counts_steps_with_differing_rewards(dead: int, signals: int) -> None:
    scattered = [*range(1, 61, 2), 2][:dead]  # no streak of them is a tenth of the run
    course = {step: 0.0 if step in scattered else 0.7 for step in STEPS}
    assert len(grad(grad_norm=course, group_range=0.5, zero_signal_share=0.25).signals) == signals


def test_a_zero_gradient_is_right_where_rewards_are_equal_or_all_completions_were_cut() -> None:
    assert grad(grad_norm=0.0, group_range=0.0, zero_signal_share=1.0).state == "not_applicable"
    assert grad(grad_norm=0.0, zero_signal_share=0.0, reward_std=0.0).state == "not_applicable"  # all rewards null: TRL says 0 for both
    assert grad(grad_norm=0.0, group_range=0.5, zero_signal_share=0.0, truncated=1.0).state == "not_applicable"
    assert grad(grad_norm=0.0).reason == "no spread of rewards within groups was logged"
    assert grad(group_range=0.5).reason == "grad_norm was not logged"


def test_an_adapter_of_zeros_trained_nothing() -> None:
    healthy = {"grad_norm": 0.7, "group_range": 0.5, "zero_signal_share": 0.25}
    assert looked(grad("changed", **healthy)) and looked(grad("changed"))
    assert looked(grad("zero", **healthy), ("adapter", "severe")) and looked(grad("zero"), ("adapter", "severe"))
    assert looked(grad("zero", role="null_control"), ("adapter", "info"))


# true_objective ----------------------------------------------------------------------------------------------------------------


def objective(score: tuple[float, float], after: tuple[float, float]) -> Detection:
    noise = {step: 0.01 * (step * 7 % 5 - 2) for step in STEPS}
    courses = {name: {s: v + noise[s] for s, v in ramp(*ends).items()} for name, ends in (("scores", score), ("rlhf_reward", after))}
    return true_objective.detect(true_objective.Settings(), seen(**{f"objective.{name}": course for name, course in courses.items()}))


def test_a_score_that_rises_while_the_objective_falls() -> None:
    found = objective((0.0, 1.0), (0.0, -0.5))
    assert looked(found, ("objective.rlhf_reward", "warning"))
    assert found.signals[0].value == pytest.approx(-0.5, abs=0.01) and found.signals[0].evidence["score"] == pytest.approx(1.0, abs=0.01)
    assert found.signals[0].says.endswith("the penalty costs more than the score gains")


@pytest.mark.parametrize(("score", "after"), [((0.0, 1.0), (0.0, 0.5)), ((0.0, 1.0), (0.0, 0.0)), ((1.0, 0.0), (1.0, -0.5))])
def test_an_objective_that_goes_with_the_score_is_information(score: tuple[float, float], after: tuple[float, float]) -> None:
    assert looked(objective(score, after), ("objective.rlhf_reward", "info"))


def test_without_a_penalty_there_is_no_objective_of_its_own() -> None:
    assert true_objective.detect(true_objective.Settings(), seen(reward=0.5)).state == "not_applicable"
    few = {"objective.scores": {1: 0.5}, "objective.rlhf_reward": {1: 0.4}}
    assert true_objective.detect(true_objective.Settings(), seen(**few)).state == "not_observable"


# resume_faults -----------------------------------------------------------------------------------------------------------------

WAVE = {step: 0.01 * (step * 7 % 5 - 2) for step in STEPS}


def resumed(*resumes: Resume, repeated: int = 0, **metrics: Any) -> Detection:
    around = {"resumes": resumes, "repeated": repeated}
    return resume_faults.detect(resume_faults.Settings(), seen(around=around, **metrics))


def test_a_jump_at_a_boundary_is_a_fault_and_one_elsewhere_is_not() -> None:
    course = {step: WAVE[step] + (0.5 if step >= 31 else 0.0) + 0.002 * step for step in STEPS}
    (signal,) = resumed(Resume(31, 30), reward=course).signals
    assert (signal.metric, signal.severity, signal.onset, signal.detected) == ("reward", "warning", 31, 35)
    assert signal.value == pytest.approx(0.5 + 0.01)
    assert looked(resumed(Resume(16, 15), reward=course))


@pytest.mark.parametrize(("step", "signals"), [(0.06, 0), (0.08, 1)])
def test_the_jump_is_measured_in_median_jumps(step: float, signals: int) -> None:
    course = {s: 0.002 * s + (step if s >= 31 else 0.0) for s in STEPS}  # every jump of five rows against five is 0.01
    assert len(resumed(Resume(31, 30), reward=course).signals) == signals


def test_missing_overlapping_and_repeated_steps() -> None:
    gap = resumed(Resume(31, 25), reward=WAVE)
    assert [(s.severity, s.onset, s.last, s.value) for s in gap.signals] == [("warning", 26, 30, 5.0)]
    (again,) = resumed(Resume(200, 199, 13), reward=WAVE).signals
    assert again.says == "13 steps from step 200 on were made again after the resume; the later attempt's count"
    (twice,) = resumed(repeated=4, reward=WAVE).signals
    assert twice.severity == "warning" and twice.says.startswith("4 values repeat a metric and a step")


def test_a_run_without_resumes_or_with_a_short_rest() -> None:
    assert resumed(reward=WAVE).state == "not_applicable"
    elsewhere = resume_faults.detect(resume_faults.Settings(), seen(around={"imported": True}, reward=WAVE))
    assert elsewhere.state == "not_observable" and "does not show whether the run was resumed" in elsewhere.reason
    late = resumed(Resume(58, 57), reward=WAVE)
    assert looked(late) and late.reason == "too few rows beside a boundary to see a jump: reward"


# duplicates --------------------------------------------------------------------------------------------------------------------


def same(twin: str | None = None, siblings: int = 2, **metrics: Any) -> Detection:
    return duplicates.detect(duplicates.Settings(), seen(around={"twin": twin, "siblings": siblings}, **metrics))


def test_duplicates_answer_for_every_run() -> None:
    assert looked(same("r-s1", reward=ramp(0, 1)), ("reward", "severe")) and looked(same(reward=ramp(0, 1)))
    assert same(siblings=0, reward=ramp(0, 1)).state == "not_applicable"
    assert same(reward=0.0).reason == "nothing that sampling changes varies, and equal constants prove nothing"
    assert same(step_seconds=1.0).state == "not_observable"


# throughput --------------------------------------------------------------------------------------------------------------------


def speed(completions: CompletionsSummary | None = None, **metrics: Any) -> Detection:
    return throughput.detect(throughput.Settings(), remade(seen(**metrics), completions=completions))


def test_throughput_is_measured_not_judged() -> None:
    made = CompletionsSummary(480, 0, truncated=tuple(Share(step, 0, 8) for step in STEPS))
    (signal,) = speed(made, step_seconds=2.0, reward_seconds=0.5, generation_seconds=1.0, completion_tokens=30.0).signals
    assert (signal.severity, signal.value) == ("info", 2.0)
    says = "a step takes 2 s (median of 60 steps, 120 s in all), 50% of it in generation, 25% of it in scoring"
    assert signal.says == f"{says}; 120 generated tokens a second"
    assert signal.evidence == {"last_to_first": 1.0, "scoring_share": 0.25, "tokens_per_second": 120.0, "steps": 60}


@pytest.mark.parametrize(("step", "whole"), [(9.0, "540 s"), (20.0, "20 min"), (105.0, "105 min"), (180.0, "3.0 h")])
def test_a_long_time_is_said_in_minutes_and_hours(step: float, whole: str) -> None:
    (signal,) = speed(step_seconds=step).signals
    assert f"{whole} in all)" in signal.says


SPEEDS = [(3.0, 0.0, False, False), (3.1, 0.0, True, False), (1.0, 0.5, False, False), (1.0, 0.51, False, True)]


@pytest.mark.parametrize(("last", "scoring", "slow", "costly"), SPEEDS)
def test_throughput_says_what_is_slow_and_never_warns_of_a_busy_machine(last: float, scoring: float, slow: bool, costly: bool) -> None:
    found = speed(step_seconds=ramp(1.0, last), reward_seconds=scoring)
    assert looked(found, ("step_seconds", "info"))
    assert ("times as long as the first" in found.signals[0].says) == slow
    assert ("more than 50% of the time goes into scoring" in found.signals[0].says) == costly


@pytest.mark.parametrize(("share", "signals"), [(0.05, 0), (0.06, 1)])
def test_rewards_that_no_verifier_knew(share: float, signals: int) -> None:
    found = speed(unknown_share=share)
    assert found.state == "looked" and len(found.signals) == signals and found.reason == "step_seconds was not logged"
