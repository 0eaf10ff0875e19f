"""What cards hold, where the goldens do not show it."""

import pytest

from compiler.language.health_profiles import PROFILES
from stages.contracts.plugin import DETECTORS, kinds


@pytest.mark.parametrize(("gpus", "device"), [("0", "cpu"), ("1", "cuda")])
def test_device(compiled, spec, gpus, device):
    cards = compiled(spec + f"resources: {{gpus: {gpus}, gpu_memory: 30GB, hours: 5.5}}\n").cards
    assert cards.train["zero"].device == cards.single["preflight/preflight.card.json"].device == device
    assert cards.single["analysis/evaluate.card.json"].device == device


def test_planning_numbers_enter_no_card(compiled, spec):
    planned = compiled(spec + "resources: {gpu_memory: 30GB, hours: 5.5}\n").cards
    assert (planned.train, planned.single) == (compiled(spec).cards.train, compiled(spec).cards.single)


def test_kl_is_followed_when_it_is_logged(compiled, spec):
    draw = "analysis/draw.card.json"
    assert "kl" not in compiled(spec).cards.single[draw].curves
    assert "kl" in compiled(spec.replace("save_steps: 4", "save_steps: 4\n  beta: 0.01")).cards.single[draw].curves


def test_all_detectors_of_the_profile_look(compiled, spec):
    card = compiled(spec).cards.single["analysis/screen.card.json"]
    assert [detector.kind for detector in card.detectors] == list(PROFILES["grpo-default"])
    assert {kind for profile in PROFILES.values() for kind in profile} == set(kinds(DETECTORS)), "every detector is in some profile"
    assert all(detector.settings or detector.kind in ("nonfinite", "duplicates") for detector in card.detectors)


def test_equal_rewards_have_equal_names(compiled, spec):
    extra = "  half: {reward: {random: bernoulli, p: 0.5}, role: control}\n  other: {reward: {random: bernoulli, p: 25%}, role: control}\n"
    text = spec.replace("conditions:\n", f"conditions:\n{extra}  again: {{reward: shaped, role: control}}\n", 1)
    names = {condition.name: condition.reward for condition in compiled(text).cards.single["analysis/draw.card.json"].conditions}
    assert names["shaped"] == names["again"] == "shaped"
    assert names["half"] == "random(bernoulli, 0.5)" and names["other"] == "random(bernoulli, 0.25)"


def test_a_gate_as_a_score_decides_nothing(compiled, spec):
    card = compiled(spec.replace("scores: [tests]", "scores: [tests, format]")).cards.single["analysis/evaluate.card.json"]
    assert [(score.name, score.on_pass, score.on_fail) for score in card.scores] == [("tests", None, None), ("format", None, None)]


def test_the_longest_completion_of_the_evaluation(compiled, spec):
    text = spec.replace("role: null_control}", "role: null_control, train: {max_completion_length: 20}}")
    evaluate = "analysis/evaluate.card.json"
    assert compiled(text).cards.single[evaluate].max_completion_length == 20
    assert compiled(text.replace("samples: 2", "samples: 2\n  max_completion_length: 9")).cards.single[evaluate].max_completion_length == 9


def test_a_spec_changes_the_settings_of_detectors_and_adds_detectors(compiled, spec):
    text = spec.replace("health:\n", "health:\n  detectors: {collapse: {patience: 30}, kl_sign: {}}\n", 1)
    assert text != spec
    found = compiled(text).cards.single
    cards = {card.kind: card.settings for card in found["analysis/screen.card.json"].detectors}
    assert list(cards) == [*PROFILES["grpo-default"], "kl_sign"]
    assert (cards["collapse"]["patience"], cards["collapse"]["at_least"]) == (30, 1.0)
    assert found["page.card.json"].health_profile == "grpo-default, changed: collapse, kl_sign"
    same = compiled(spec).cards.single
    assert same["page.card.json"].health_profile == "grpo-default"
