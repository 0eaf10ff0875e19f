"""Weighted rewards: from the spec to a card that the reward engine takes, and the borders of the rules."""

from pathlib import Path

import pytest

from compiler.problems import Rejected
from stages.contracts.reward import Phase

SPEC = (Path(__file__).parents[1] / "golden" / "weighted" / "spec.yaml").read_text(encoding="utf-8")


def codes(compiled, text, name="example") -> list[str]:
    try:
        return [problem.code for problem in compiled(text, name).warnings]
    except Rejected as rejected:
        return [problem.code for problem in rejected.diagnostics]


def test_the_card_says_what_the_spec_says_(compiled):
    card = compiled(SPEC).cards.train["shaped"].reward
    assert card.combine == "weighted"
    assert [(gate.name, gate.weight, gate.needs) for gate in card.gates] == [("format", 0.2, None), ("tests", 0.8, "format")]
    assert card.curriculum == (
        Phase(**{"from": 0.0}, weights={"format": 0.5, "tests": 0.5}),
        Phase(**{"from": 0.5}, weights={"format": 0.2, "tests": 0.8}),
    )
    assert [(penalty.name, penalty.set, penalty.factor) for penalty in card.penalties] == [("runaway", None, 0.3)]


def test_scores_of_the_evaluation_have_no_weight(compiled):
    scores = compiled(SPEC).cards.single["analysis/evaluate.card.json"].scores
    assert [(score.weight, score.needs) for score in scores] == [(None, None)]


def test_examples_go_to_preflight_with_their_length(compiled):
    text = SPEC.replace("row: row-3, expect: 0.0}", "row: row-3, expect: 0.0, truncated: true}")
    conditions = compiled(text).cards.single["preflight/preflight.card.json"].conditions
    assert [example.truncated for example in conditions[0].reward.examples] == [False, True]


def test_origins_of_weights_phases_and_penalties(compiled):
    weighted = compiled(SPEC)
    lines = weighted.experiment.document.lines
    for pointer, text in [
        ("/reward/gates/1/weight", "80%"),
        ("/reward/gates/1/needs", "format"),
        ("/reward/penalties/0", "runaway"),
        ("/reward/curriculum/1", "{from: 50%"),
    ]:
        origin = weighted.origins.cards["shaped/train.card.json"][pointer]
        assert lines[origin.line - 1][origin.column - 1 :].startswith(text), pointer
    assert "/reward/gates/0/weight" not in weighted.origins.cards["zero/train.card.json"]


def test_inverting_a_weighted_reward(compiled):
    text = SPEC.replace("conditions:\n", "conditions:\n  turned: {reward: {invert: shaped}, role: control}\n")
    card = compiled(text).cards.train["turned"].reward
    assert (card.invert, card.combine, len(card.curriculum)) == (True, "weighted", 2)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("weight: 80%", "weight: 0.8"), []),
        (("weight: 80%", "weight: 0.8000000001"), []),
        (("weight: 80%", "weight: 0.80001"), ["E346"]),
        (("from: 50%", "from: 91%"), []),
        (("from: 50%", "from: 92%"), ["E352"]),
        (("from: 50%", "from: 100%"), ["E352"]),
        (("from: 50%", "from: -1%"), ["E208"]),
        (("    penalties:", "    cap: 50%\n    penalties:"), ["E203"]),
        (("    penalties:", "    cap: 0.5\n    penalties:"), []),
        (("factor: 0.3", "set: 0"), []),
        (("factor: 0.3", "factor: 2"), ["E205"]),
        (("when: truncated and not tests.pass", "when: yes"), ["E351"]),
        (("when: truncated and not tests.pass", "when: true"), ["E203"]),
        ((", needs: format", ""), []),
    ],
)
def test_borders(compiled, change, expected):
    assert SPEC.count(change[0]) == 1
    assert codes(compiled, SPEC.replace(*change)) == expected


def test_a_profile_may_be_too_short_for_its_phases(compiled):
    text = SPEC.replace("from: 50%", "from: 80%")
    assert codes(compiled, text, "example@smoke") == []


def test_a_penalty_of_a_reward_that_nobody_uses_is_read_too(compiled):
    text = SPEC.replace("shaped: {reward: shaped, role: treatment}", "shaped: {reward: {random: uniform}, role: treatment}")
    assert "E351" in codes(compiled, text.replace("not tests.pass", "not tests.pas"))


def test_penalties_and_caps_go_with_both_ways_to_combine(compiled, spec):
    text = spec.replace(
        "    unknown: {limit: 5%}", "    unknown: {limit: 5%}\n    cap: 0.9\n    penalties: [{long: {when: truncated, set: 0}}]"
    )
    card = compiled(text).cards.train["shaped"].reward
    assert (card.combine, card.cap, card.penalties[0].set) == ("first_decides", 0.9, 0.0)


def test_a_child_changes_a_weight_by_its_name(compiled, work):
    (work / "specs/child.yaml").write_text(
        "title: Less format\nparent: example\nhypothesis: Worse.\n"
        "changes: {rewards.shaped.gates.format.weight: 10%, rewards.shaped.gates.tests.weight: 90%}\n"
    )
    compiled(SPEC)
    from compiler.build.inputs import Inputs
    from compiler.build.pipeline import named
    from compiler.compile import compile_all

    experiment = compile_all([named("child")], Inputs())[0]
    assert [gate.weight for gate in experiment.cards.train["shaped"].reward.gates] == [0.1, 0.9]


def test_a_score_made_of_others_is_on_the_card_and_can_be_claimed(compiled):
    text = SPEC.replace("scores: [tests]", "scores: [format, tests, {neat-and-wrong: {when: format.pass and not tests.pass}}]")
    text = text.replace("metric: evaluation.tests.pass_share", "metric: evaluation.neat-and-wrong.pass_share")
    cards = compiled(text).cards.single
    evaluate = cards["analysis/evaluate.card.json"]
    assert [(score.name, score.when.model_dump()) for score in evaluate.combined] == [
        (
            "neat-and-wrong",
            {"all": ({"gate": "format", "status": "pass", "holds": True}, {"gate": "tests", "status": "pass", "holds": False})},
        )
    ]
    assert [score.name for score in evaluate.scores] == ["format", "tests"]
    conclude = cards["analysis/conclude.card.json"]
    assert conclude.evaluation == ("format", "tests", "neat-and-wrong")
    assert conclude.claims[0].metric == "evaluation.neat-and-wrong.pass_share"


def test_a_score_made_of_others_may_not_take_a_name_twice(compiled):
    assert codes(compiled, SPEC.replace("scores: [tests]", "scores: [tests, {tests: {when: truncated}}]")) == ["E319"]


def test_a_scale_is_on_the_card_and_without_one_the_card_is_as_it_was(compiled):
    scaled = compiled(SPEC.replace("    unknown: {limit: 5%}", "    scale: {low: -2, high: 2}\n    unknown: {limit: 5%}"))
    scale = scaled.cards.train["shaped"].reward.scale
    assert (scale.low, scale.high) == (-2.0, 2.0)
    assert "scale" not in compiled(SPEC).cards.train["shaped"].reward.model_dump()
