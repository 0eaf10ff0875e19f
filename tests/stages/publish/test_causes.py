"""Anomalies explained: one plain sentence each from a table, with what would confirm it."""

import pytest

from stages.contracts.health import Signal
from stages.contracts.plugin import DETECTORS, kinds
from stages.publish.anomalies import _PHRASES, evidence_words
from stages.publish.causes import _CAUSES, explain


def signal(detector: str, metric: str = "reward", value: float | None = 0.5, severity: str = "warning") -> Signal:
    return Signal.model_validate({"detector": detector, "metric": metric, "severity": severity, "says": "x", "value": value})


@pytest.mark.parametrize("kind", kinds(DETECTORS))
def test_every_detector_is_explained_and_has_a_phrase(kind: str) -> None:
    for value in (0.5, None):
        found = explain([signal(kind, value=value)])
        assert found and found.says.endswith(".") and found.confirm.endswith(".") and "{" not in found.says
    assert kind in _PHRASES


def test_no_entry_is_of_a_detector_that_is_not_there() -> None:
    assert {kind for kind, _ in _CAUSES} == set(kinds(DETECTORS))


def test_truncation_in_one_sentence_with_its_number() -> None:
    found = explain([signal("truncation", "truncated", 0.2), signal("truncation", "truncated", 0.95)])
    assert found and found.says == (
        "95% of completions hit the length limit: the reward is judged on cut answers; raise max_completion_length or shorten prompts."
    )


@pytest.mark.parametrize(
    ("detector", "metric", "value", "words"),
    [
        ("kl_reference", "kl", -30.0, "sampling and scoring differ"),
        ("kl_reference", "kl", 0.9, "0.9 nats per token from the reference model"),
        ("gradient", "grad_norm", 1.0, "100% of those steps have a gradient of exactly 0"),
        ("gradient", "adapter", None, "the untrained model's"),
        ("atoms", "reward", 0.21, "exactly 0.21"),
        ("collapse", "zero_signal_share", 40.0, "For 40 steps no group had unequal rewards"),
        ("summary", "truncated", 0.95, "95% of completions hit the length limit"),
        ("summary", "kl", None, "The KL to the reference model was not a finite number"),
        ("update_size", "policy.clipfrac", 0.4, "The clipped share, policy is 0.4 on average"),
    ],
)
def test_sentences_carry_the_measured_number(detector: str, metric: str, value: float | None, words: str) -> None:
    found = explain([signal(detector, metric, value)])
    assert found and words in found.says


def test_information_needs_no_explanation_and_unknown_kinds_have_none() -> None:
    assert explain([signal("truncation", severity="info")]) is None
    assert explain([signal("no-such-detector")]) is None


def test_case_25_a_spike_of_the_gradient_says_whether_clipping_was_on() -> None:
    spike = signal("spikes", "grad_norm", 54_648_652.0)
    on, unknown = explain([spike], 1.0), explain([spike])
    assert on and "logged before clipping, and clipping to 1 was on" in on.says
    assert unknown and "whether clipping was on is not known" in unknown.says
    assert explain([signal("spikes", "kl")], 1.0).says.count("clipping") == 0  # type: ignore[union-attr]


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
