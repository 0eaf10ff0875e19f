"""Anomalies explained: one plain sentence each from a table, with what would confirm it."""

from types import SimpleNamespace

import pytest

from stages.contracts.health import Detection, Signal
from stages.contracts.plugin import DETECTORS, kinds
from stages.publish.anomalies import evidence_words
from stages.publish.causes import causes, explain, phrase
from stages.publish.conditions import nonfinite


def signal(detector: str, metric: str = "reward", value: float | None = 0.5, severity: str = "warning", kind: str = "") -> Signal:
    return Signal.model_validate({"detector": detector, "metric": metric, "kind": kind, "severity": severity, "says": "x", "value": value})


@pytest.mark.parametrize("kind", kinds(DETECTORS))
def test_every_detector_is_explained_and_has_a_phrase(kind: str) -> None:
    for value in (0.5, None):
        explanation = explain([signal(kind, value=value)])
        assert explanation and explanation.means.endswith(".") and explanation.check.endswith((".", "?")) and "{" not in explanation.means
    assert phrase([signal(kind)]) and causes()[kind]["default"]["phrase"]


def test_no_entry_is_of_a_detector_that_is_not_there() -> None:
    assert {*causes()} == {*kinds(DETECTORS), "summary"}


def test_truncation_in_one_sentence_with_its_number() -> None:
    explanation = explain([signal("truncation", "truncated", 0.2), signal("truncation", "truncated", 0.95)])
    says = "hit the length limit: the reward is judged on cut answers; raise max_completion_length or shorten prompts."
    assert explanation and explanation.means == f"20% to 95% of completions {says}"


@pytest.mark.parametrize(
    ("detector", "metric", "value", "words"),
    [
        ("kl_reference", "kl:negative", -30.0, "sampling and scoring differ"),
        ("kl_reference", "kl", 0.9, "0.9 nats per token from the reference model"),
        ("gradient", "grad_norm", 1.0, "In 100% of the steps whose rewards differ within groups the gradient is exactly 0"),
        ("gradient", "adapter", None, "the untrained model's"),
        ("atoms", "reward", 0.21, "exactly 0.21"),
        ("collapse", "zero_signal_share", 40.0, "For 40 steps no group had unequal rewards"),
        ("summary", "truncated", 0.95, "95% of completions hit the length limit"),
        ("summary", "kl:transient", None, "The KL to the reference model was not a finite number for some steps but was finite at the end"),
        ("update_size", "policy.clipfrac:clipped", 0.4, "40% of the tokens of a window were clipped"),
        ("update_size", "policy.ratio", 1.25, "The ratio of new and old policy is 1.25 on average over a window"),
        ("value_fit", "value.explained_variance", -1.5, "explained variance is -1.5 and a constant guess has 0"),
        ("true_objective", "objective.rlhf_reward", -0.5, "fell by 0.5 while the score did not fall"),
        ("kl_sign", "objective.kl", -30.55, "fell to -30.6 nats per completion"),
        ("entropy_change", "entropy:fallen", 0.1, "0.1 times that of the run's own start: the policy is surer"),
        ("entropy_change", "entropy:risen", 4.0, "4 times that of the run's own start: the policy is less sure"),
        ("resume_faults", "rows", 4.0, "written more than once within one attempt"),
    ],
)
def test_sentences_carry_the_measured_number(detector: str, metric: str, value: float | None, words: str) -> None:
    name, _, kind = metric.partition(":")
    explanation = explain([signal(detector, name, value, kind=kind)])
    assert explanation and words in explanation.means


def test_information_needs_no_explanation_and_unknown_kinds_have_none() -> None:
    assert explain([signal("truncation", severity="info")]) is None
    assert explain([signal("no-such-detector")]) is None


def test_case_25_a_spike_of_the_gradient_says_whether_clipping_was_on() -> None:
    spike = signal("spikes", "grad_norm", 54_648_652.0)
    on, unknown = explain([spike], 1.0), explain([spike])
    assert on and "logged before clipping, and clipping to 1 was on" in on.means
    assert unknown and "whether clipping was on is not known" in unknown.means
    assert explain([signal("spikes", "kl")], 1.0).means.count("clipping") == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("height", [1e-6, 0.3, 111.0, 54_648_652.0])
def test_case_25_clipping_bounds_what_is_above_it_and_nothing_else(height: float) -> None:
    for clip in (height * 0.99, height, height * 1.01):
        explanation = explain([signal("spikes", "grad_norm", height / 2), signal("spikes", "grad_norm", height)], clip)
        assert explanation and f"clipping to {clip:g} was on" in explanation.means
        assert ("the update itself was bounded" in explanation.means, "nothing was cut" in explanation.means) == (
            height > clip,
            height <= clip,
        )
    unknown = explain([signal("spikes", "grad_norm", height)])
    assert unknown and "nor whether the norm was logged before it" in unknown.means
    assert "bounded" not in unknown.means and "logged before clipping" not in unknown.means


def test_evidence_is_printed_in_the_digits_of_the_page() -> None:
    signal = Signal(
        detector="kl_reference",
        metric="kl",
        severity="info",
        says="",
        onset=None,
        last=300,
        value=0.04,
        evidence={"null_controls": [0.004080090916612769, 0.31], "rows": 300, "samples": []},
    )
    assert evidence_words(signal) == "null controls [0.0041, 0.31], rows 300"
    counted = {"k": 78, "n": 80, "all_k": 250, "all_n": 480}
    dated = signal.model_copy(update={"onset": 26, "detected": 30, "evidence": counted})
    assert evidence_words(dated) == "From step 26, detectable at step 30: 78 of 80 (250 of 480 in all)"


def with_evidence(detector: str, metric: str, value: float, kind: str = "", **evidence: object) -> Signal:
    return signal(detector, metric, value, kind=kind).model_copy(update={"evidence": evidence})


def test_a_share_that_was_high_before_the_end_is_said_with_its_steps() -> None:
    """At the end nothing was cut: the sentence must not say that 0% of completions are judged on cut answers."""
    early = with_evidence("truncation", "truncated", 0.0, first_above=0.45, **{"in": "steps 3-12"})
    explanation = explain([early])
    assert explanation and explanation.means.startswith("45% of completions in steps 3-12 hit the length limit")
    both = explain([early, signal("truncation", "truncated", 0.6)])
    assert both and both.means.startswith("45% to 60% of completions in a part of the run hit the length limit")


def test_one_sentence_holds_for_all_runs_or_there_are_two() -> None:
    atoms = explain([signal("atoms", value=0.35), signal("atoms", value=0.21)])
    assert atoms and "One reward, exactly 0.21 or 0.35, neither 0 nor the highest," in atoms.means
    steps = explain([signal("collapse", "zero_signal_share", 40.0), signal("collapse", "zero_signal_share", 15.0)])
    assert steps and steps.means.startswith("For 15 to 40 steps no group had unequal rewards")
    kl = explain([signal("kl_reference", "kl", 0.9), signal("kl_reference", "kl", -3.0, kind="negative")])
    assert kl and kl.means.count(".") > 1 and "0.9 nats per token from the reference" in kl.means and "estimated as -3 nats" in kl.means
    entropy = explain([signal("entropy_change", "entropy", ratio, kind="fallen") for ratio in (0.1, 0.19)])
    assert entropy and entropy.means.startswith("Entropy at the end is 0.1 to 0.19 times")


def test_a_collapse_by_another_rule_says_that_rule_and_no_more() -> None:
    explanation = explain([with_evidence("collapse", "reward_std", 299.0, "declared", rule="reward_std below 0.05")])
    assert explanation and explanation.means.startswith("For 299 steps the declared rule held (reward_std below 0.05), which the spec")
    assert "no group had" not in explanation.means


def test_only_the_gradient_makes_steps_count_nowhere() -> None:
    gradient = explain([with_evidence("nonfinite", "gradient", 0.9, count=280, rows=300)])
    assert (
        gradient
        and "The gradient was not a finite number in 280 of 300 logged steps, so those steps count in no statistic" in gradient.means
    )
    kl = explain([with_evidence("nonfinite", "kl", 0.1, count=1, rows=1)])
    assert kl
    assert kl.means.startswith("The KL to the reference model was not a finite number in 1 of 1 logged step, so its statistics leave")
    assert "no statistic" not in kl.means


def test_an_entropy_outside_a_declared_band_is_no_ratio() -> None:
    explanation = explain(
        [with_evidence("entropy_change", "entropy", 1.0, "outside", first=0.05, last=0.05, outside="below the declared 0.1")]
    )
    assert explanation and explanation.means.startswith("Entropy at the end is 0.05 nats per token, outside the declared band")


def test_a_summary_cannot_say_which_steps_count() -> None:
    explanation = explain([with_evidence("summary", "grad_norm", 0.0, "persistent")])
    assert explanation and explanation.means.startswith("The last logged value of the gradient norm is not a finite number")
    assert "count in no statistic" not in explanation.means


def test_the_seeds_table_dates_the_lasting_failure_and_not_an_earlier_one() -> None:
    def looked(detector: str, *steps: tuple[str, int]) -> Detection:
        signals = (signal(detector, "kl").model_copy(update={"evidence": {"class": kind}, "onset": onset}) for kind, onset in steps)
        return Detection(detector=detector, state="looked", signals=tuple(signals))

    def cell(*detections: Detection) -> str:
        return nonfinite(SimpleNamespace(health=SimpleNamespace(detections=detections)))  # type: ignore[arg-type]

    assert cell(looked("nonfinite", ("transient", 5), ("persistent", 50))) == "persistent from 50"
    assert cell(looked("nonfinite", ("transient", 9), ("transient", 5))) == "transient, first at 5"
    assert cell(looked("nonfinite")) == "none"
    blind = Detection(detector="nonfinite", state="not_observable", reason="only a summary was imported")
    assert cell(blind, looked("summary", ("persistent", 21))) == "persistent from 21"
    assert cell(blind, looked("summary")) == "not observable"


def test_rows_far_off_that_follow_each_other_are_no_single_steps() -> None:
    level = with_evidence("spikes", "entropy", 0.05, "level", steps=list(range(60, 70)), rows=120).model_copy(update={"onset": 60})
    single = with_evidence("spikes", "entropy", 0.05, steps=[7, 60, 61, 90, 91], rows=120)
    explanation, spikes = explain([level]), explain([single])
    assert explanation and explanation.means.startswith("The entropy left its usual range for many rows in a row from step 60 on")
    assert spikes and "for single steps" in spikes.means
