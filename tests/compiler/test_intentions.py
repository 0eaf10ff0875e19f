"""Actions and contingency plans: the change must lead somewhere, and only the page changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.compile import compile_all
from compiler.problems import Rejected

ACTIONS = """\
actions:
  - {id: longer, do: Let it write more., priority: 2, change: {train.max_completion_length: 20}}
  - id: hotter
    do: Raise the temperature.
    change: {train.temperature: 1.1, train.beta: 1e-3}
    because: |
      groups do
      not differ
    expect: [{metric: zero_signal_share, below: 10%}, {metric: evaluation.tests.pass_share, above: 0.2}]
  - {id: look, do: Read completions., priority: 9}
contingency:
  - id: easier
    if: {claim: shaped-teaches, is: [refuted, void]}
    do: Weigh the format more.
    change: {rewards.shaped.gates.format.on_fail: 0.1}
  - {id: stop, if: {claim: shaped-teaches, is: refuted}, do: Stop.}

"""


def intending(spec: str, text: str = ACTIONS) -> str:
    return spec.replace("profiles:\n", f"{text}profiles:\n")


def child(work: Path, name: str, changes: str, parent: str = "example") -> None:
    text = f"title: A child\nparent: {parent}\nchanges: {changes}\nhypothesis: It helps.\n"
    (work / f"specs/{name}.yaml").write_text(text)


def test_the_page_holds_them_as_the_spec_does_by_priority(compiled, spec):
    card = compiled(intending(spec)).cards.page
    assert [action.id for action in card.actions] == ["hotter", "longer", "look"]
    hotter = card.actions[0]
    assert hotter.because == "groups do not differ" and hotter.change == {"train.temperature": 1.1, "train.beta": 1e-3}
    assert [(move.metric, move.above, move.below) for move in hotter.expect] == [
        ("zero_signal_share", None, 0.1),
        ("evaluation.tests.pass_share", 0.2, None),
    ]
    easier = card.contingency[0]
    assert (easier.when.waits, easier.when.name, easier.when.wanted) == ("claim", "shaped-teaches", ("refuted", "void"))
    assert easier.change == {"rewards.shaped.gates.format.on_fail": 0.1}


def test_they_change_the_page_only(files, spec):
    before, after = files(spec).files, files(intending(spec)).files
    assert {path for path in after if before.get(path) != after[path]} == {"runs/example/page.card.json"}
    assert '"actions"' not in before["runs/example/page.card.json"] and '"contingency"' not in before["runs/example/page.card.json"]


def test_a_child_does_not_inherit_them_and_a_profile_shows_its_experiments(work, compiled, spec):
    compiled(intending(spec))
    child(work, "warm", "{train.temperature: 1.1}")
    card = compile_all([named("warm")], Inputs())[0].cards.page
    assert card.actions == () and card.contingency == ()
    smoke = compile_all([named("example@smoke")], Inputs())[0].cards.page
    assert [action.id for action in smoke.actions] == ["hotter", "longer", "look"]


@pytest.mark.parametrize(
    ("text", "code", "what"),
    [
        ("actions: [{id: a, do: x, change: {rewards.shaped.gates.formt.on_fail: 0.1}}]\n", "E338", "did you mean `format`"),
        ("actions: [{id: a, do: x}, {id: a, do: y}]\n", "E319", "is given twice"),
        ("contingency: [{id: a, if: {claim: shaped-teach, is: void}, do: x}]\n", "E373", "did you mean `shaped-teaches`"),
        ("contingency: [{id: a, if: {claim: shaped-teaches}, do: x}]\n", "E209", "for which outcome of the claim"),
        ("contingency: [{id: a, if: {expectation: e, is: refuted}, do: x}]\n", "E209", "for which outcome of the expectation"),
        ("contingency: [{id: a, if: {red_flag: 1, is: missed}, do: x}]\n", "E209", "for which outcome of the red flag"),
        ("contingency: [{id: a, if: {claim: a, red_flag: 1}, do: x}]\n", "E209", "exactly one of"),
        ("contingency: [{id: a, if: {expectation: e}, do: x}]\n", "E373", "the expectation `e`, which does not exist"),
        ("contingency: [{id: a, if: {red_flag: 2}, do: x}]\n", "E373", "the red flag `2`, which does not exist"),
    ],
)
def test_wrong_plans(compiled, spec, text, code, what):
    with pytest.raises(Rejected) as rejected:
        compiled(intending(spec, text))
    assert [problem.code for problem in rejected.value.diagnostics] == [code]
    (problem,) = rejected.value.diagnostics
    assert what in problem.what and problem.place is not None and problem.place.file == "specs/example.yaml" and problem.place.line == 56


def test_plans_for_expectations_and_red_flags(compiled, spec):
    text = """\
expect:
  - {id: early, metric: reward, at: 50%, above: 0.2}
  - {metric: zero_signal_share, at: 100%, below: 30%}
stop: {red_flags: [{when: reward < 0.1, after: 50%}]}
contingency:
  - {id: a, if: {expectation: early}, do: x}
  - {id: b, if: {expectation: zero-signal-share-at-100pct, is: met}, do: x}
  - {id: c, if: {red_flag: 1}, do: x}

"""
    plans = compiled(intending(spec, text)).cards.page.contingency
    assert [(plan.when.waits, plan.when.name, plan.when.wanted) for plan in plans] == [
        ("expectation", "early", ("missed",)),
        ("expectation", "zero-signal-share-at-100pct", ("met",)),
        ("red_flag", "red_flag-1", ("raised",)),
    ]
