"""Anomalies explained: one plain sentence each from a table, with what would confirm it."""

import pytest

from stages.contracts.health import Signal
from stages.contracts.plugin import DETECTORS, kinds
from stages.publish.anomalies import evidence_words
from stages.publish.causes import causes, explain, phrase


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
        (
            "truncation",
            "truncated",
            0.2,
            "20% of completions hit the length limit: the reward is judged on cut answers; raise max_",
        ),
    ],
)
def test_sentences_carry_the_measured_number(detector: str, metric: str, value: float | None, words: str) -> None:
    name, _, kind = metric.partition(":")
    explanation = explain([signal(detector, name, value, kind=kind)])
    assert explanation and words in explanation.means


def test_information_needs_no_explanation_and_unknown_kinds_have_none() -> None:
    assert explain([signal("truncation", severity="info")]) is None
    assert explain([signal("no-such-detector")]) is None


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


@pytest.mark.parametrize(
    ("detector", "metric", "kind", "evidence", "begins", "without"),
    [
        (
            "collapse",
            "reward_std",
            "declared",
            {"rule": "reward_std below 0.05"},
            "For 299 steps the declared rule held (reward_std below 0.05), which the spec",
            "no group had",
        ),
        (
            "nonfinite",
            "gradient",
            "",
            {"count": 280, "rows": 300},
            "The gradient was not a finite number in 280 of 300 logged steps, so those steps count in no statistic",
            "logged step,",
        ),
        (
            "nonfinite",
            "kl",
            "",
            {"count": 1, "rows": 1},
            "The KL to the reference model was not a finite number in 1 of 1 logged step, so its statistics leave",
            "no statistic",
        ),
        (
            "entropy_change",
            "entropy",
            "outside",
            {"first": 0.05, "last": 0.05, "outside": "below the declared 0.1"},
            "Entropy at the end is 0.05 nats per token, outside the declared band",
            " times ",
        ),
        ("summary", "grad_norm", "persistent", {}, "The last logged value of the gradient norm is not a finite number", "no statistic"),
        ("spikes", "entropy", "", {"steps": [7, 60, 61], "rows": 120}, "", "in a row"),
    ],
)
def test_what_a_detector_saw_decides_the_sentence(
    detector: str, metric: str, kind: str, evidence: dict[str, object], begins: str, without: str
) -> None:
    explanation = explain([with_evidence(detector, metric, 299.0, kind, **evidence)])
    assert explanation and explanation.means.startswith(begins) and without not in explanation.means
