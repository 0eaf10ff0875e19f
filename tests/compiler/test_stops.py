"""Stop rules and expectations: what reaches the cards, from where, and the borders of their rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_rules import codes

from compiler.commands.explain import explain
from compiler.language.expressions import Unreadable, is_decided, stop_condition, written_comparisons
from compiler.problems import Rejected
from stages.contracts.artifact import dump
from stages.contracts.expressions import text as text_of

EARLY = "early_stop: {when: zero_signal_share == 1.0, for: 3 steps}"
STOP = """stop:
  red_flags:
    - {when: reward < 0.15 and slope(reward) <= 0, after: 50%}
    - {when: gate.tests.pass_share < 5%, after: 6 steps, for: 25%, conditions: [shaped]}
  green_lights: [{when: gate.tests.pass_share >= 0.05}]
expect:
  - {metric: reward, at: 50%, above: 20%}
  - {id: late, metric: gate.tests.pass_share, at: 12 steps, below: 0.9, conditions: [shaped]}

profiles:
"""


@pytest.fixture
def ruled(spec: str) -> str:
    return spec.replace("  save_steps: 4\n", f"  save_steps: 4\n  {EARLY}\n").replace("profiles:\n", STOP)


def test_cards_hold_steps_and_no_text(compiled, ruled):
    stop = compiled(ruled).cards.train["shaped"].stop
    assert [(rule.id, rule.after, rule.lasting, rule.window) for rule in stop.rules] == [
        ("early_stop", 0, 3, 1),
        ("red_flag-1", 6, None, 1),
        ("red_flag-2", 6, 3, 1),  # 25% of 12 steps
    ]
    assert text_of(stop.rules[1].when) == "reward < 0.15 and slope(reward, 3 steps) <= 0"  # a fifth of 12 steps
    assert [light.id for light in stop.green_lights] == ["green_light-1"]


def test_a_null_control_has_none(compiled, ruled):
    cards = compiled(ruled).cards
    assert cards.train["zero"].stop is None
    assert '"stop"' not in dump(cards.train["zero"])
    assert list(cards.single["analysis/conclude.card.json"].stops) == ["shaped"]


def test_expectations_are_on_the_analysis_card_only(compiled, ruled, spec):
    first, late = compiled(ruled).cards.single["analysis/conclude.card.json"].expectations
    assert (first.id, first.at, first.place, first.bound, first.conditions) == ("reward-at-50pct", "50%", "50%", 0.2, ("shaped",))
    assert (late.id, late.place, late.direction) == ("late", "step 12", "below")
    expect_only = spec.replace("profiles:\n", "expect: [{metric: reward, at: 50%, above: 0.2}]\nprofiles:\n")
    for name, card in compiled(spec).cards.train.items():
        assert dump(card) == dump(compiled(expect_only).cards.train[name])


def test_origins_point_at_the_rules(compiled, ruled):
    experiment, lines = compiled(ruled), ruled.splitlines()

    def line(origin) -> str:
        return lines[origin.line - 1][origin.column - 1 :]

    train = experiment.origins.cards["shaped/train.card.json"]
    assert line(train["/stop/rules/0"]).startswith("{when: zero_signal_share")
    assert line(train["/stop/rules/2"]).startswith("{when: gate.tests.pass_share < 5%")
    conclude = experiment.origins.cards["analysis/conclude.card.json"]
    assert line(conclude["/expectations/1"]).startswith("{id: late")
    assert conclude["/stops/shaped/rules/1"] == train["/stop/rules/1"]


def test_explain_shows_them_in_words(compiled, ruled):
    experiment = compiled(ruled)
    run = next(run for run in experiment.expansion.runs if run.name == "shaped-s1")
    explanation = explain(experiment, run, None)
    for key, value in {
        "train.early_stop": "zero_signal_share == 1 for 3 logged steps in a row",
        "stop.red_flags.2": "gate.tests.pass_share < 0.05 for 3 logged steps in a row, from step 6 on",
        "stop.green_lights.1": "gate.tests.pass_share >= 0.05",
        "expect.reward-at-50pct": "reward above 0.2 at 50%",
    }.items():
        [row] = [row for row in explanation.splitlines() if row.startswith(f"{key} ")]
        assert value in row and "specs/example.yaml:" in row
    assert "early_stop" in explain(experiment, run, "train.early_stop")
    zero = next(run for run in experiment.expansion.runs if run.name == "zero-s1")
    assert "early_stop" not in explain(experiment, zero, None)


def test_a_condition_may_have_a_rule_of_its_own(compiled, ruled):
    own = ruled.replace("role: treatment}", "role: treatment, train: {early_stop: {when: entropy < 0.1}}}")
    rule = compiled(own).cards.train["shaped"].stop.rules[0]
    assert (rule.id, text_of(rule.when), rule.lasting) == ("early_stop", "entropy < 0.1", 3)  # maps merge: `for` stays
    without = ruled.replace("role: treatment}", "role: treatment, train: {early_stop: null}}")
    assert [rule.id for rule in compiled(without).cards.train["shaped"].stop.rules] == ["red_flag-1", "red_flag-2"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("after: 11 steps", []),  # of 12: one step is left to save
        ("after: 12 steps", ["E362"]),
        ("after: 91%", []),
        ("after: 92%", ["E362"]),
        ("after: 5 steps, for: 7 steps", []),
        ("after: 6 steps, for: 7 steps", ["E362"]),
        ("for: 11 steps", []),
        ("for: 12 steps", ["E362"]),
        ("after: 0%", []),
    ],
)
def test_the_border_of_a_dead_rule(compiled, spec, rule, expected):
    text = spec.replace("profiles:\n", f"stop: {{red_flags: [{{when: reward < 0.1, {rule}}}]}}\nprofiles:\n")
    assert codes(compiled, text) == expected
    assert codes(compiled, text, "example@smoke") == []


@pytest.mark.parametrize(
    ("expect", "expected"),
    [
        ("metric: reward, at: 12 steps, above: 0.1", []),
        ("metric: reward, at: 13 steps, above: 0.1", ["E362"]),
        ("metric: truncated, at: 100%, above: 0", []),
        ("metric: truncated, at: 100%, above: 1", ["E363"]),
        ("metric: truncated, at: 100%, below: 0", ["E363"]),
        ("metric: truncated, at: 100%, below: 1", []),
        ("metric: gate.constant.pass_share, at: 50%, above: 0.5, conditions: [zero]", []),
        ("metric: gate.tests.pass_share, at: 50%, above: 0.5, conditions: [zero]", ["E361"]),
    ],
)
def test_the_borders_of_expectations(compiled, spec, expect, expected):
    assert codes(compiled, spec.replace("profiles:\n", f"expect: [{{{expect}}}]\nprofiles:\n")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reward<0.15", "reward < 0.15"),
        ("not reward < 0.15", "reward >= 0.15"),
        ("not (reward < 1 and entropy > 2)", "reward >= 1 or entropy <= 2"),
        ("reward < 1 or entropy < 1 and kl < 1", "reward < 1 or entropy < 1 and kl < 1"),
        ("(reward < 1 or entropy < 1) and kl < 1e-3", "(reward < 1 or entropy < 1) and kl < 0.001"),
        ("slope(reward, 25%) > -0.5", "slope(reward, 15 steps) > -0.5"),
        ("slope(gate.my-tests.pass_share,7 steps)>=0", "slope(gate.my-tests.pass_share, 7 steps) >= 0"),
        ("truncated > 7%", "truncated > 0.07"),
    ],
)
def test_conditions_are_read(text, expected):
    assert text_of(stop_condition(text, 60)) == expected


@pytest.mark.parametrize(
    "text", ["", "reward", "reward < 1e999", "reward < nan", "reward < 1 < 2", "< 1", "reward < 1 or", "slope(reward", "()"]
)
def test_what_is_no_condition(text):
    with pytest.raises(Unreadable) as caught:
        stop_condition(text, 60)
    assert caught.value.problem.code == "E360"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("truncated >= 0", True),
        ("truncated > 0", None),
        ("truncated > 1", False),
        ("truncated >= 1", None),
        ("truncated != 1.5", True),
    ],
)
def test_what_never_or_always_holds_of_a_share(text, expected):
    assert is_decided(stop_condition(text, 60)) is expected


WORDS = ["reward", "kl", "slope", "(", ")", ",", "<", "<=", "==", "and", "or", "not", "1", "50%", "6 steps", "-3e2", "é", "'"]


@given(st.one_of(st.text(max_size=600), st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)))
def test_any_text_is_a_condition_or_an_error_that_points_into_it(text):
    try:
        parsed = stop_condition(text, 60)
    except Unreadable as error:
        assert error.problem.code == "E360" and 0 <= error.start <= len(text) and error.length >= 0
    else:
        again = stop_condition(text_of(parsed), 60)
        assert text_of(again) == text_of(parsed)
        assert all(leaf.metric == token["metric"] for leaf, token in written_comparisons(text, parsed))


def test_a_child_declares_a_changed_rule(compiled, ruled, work):
    (work / "specs" / "parent.yaml").write_text(ruled, encoding="utf-8")
    child = "title: Less patience\nparent: parent\nhypothesis: It ends earlier.\nchanges: {train.early_stop.for: 2 steps}\n"
    assert compiled(child).cards.train["shaped"].stop.rules[0].lasting == 2
    undeclared = f"{child}stop: {{red_flags: []}}\n"
    with pytest.raises(Rejected, match=r"E339 .*stop\.red_flags"):
        compiled(undeclared)
