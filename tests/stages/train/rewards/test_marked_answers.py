"""The answer inside a completion: where it stands, what gates judge of it, and what becomes of a completion without one."""

import pytest
from pydantic import ValidationError

from stages.contracts import patterns
from stages.contracts.answer import AnswerRule, Taken, take
from stages.contracts.expressions import Signal
from stages.contracts.plugin import Answer
from stages.contracts.reward import Gate, Penalty, Reward
from stages.train.reasons import probes
from stages.train.rewards.compose import compose, score_each
from stages.train.scoring import completion_rows

FENCE = AnswerRule.model_validate({"from": "fence"})
ROW = {"id": "a", "tests": [{"arguments": [1], "expected": 3}, {"arguments": [2], "expected": 5}], "asserts": "let () = assert (f 1 = 2)\n"}


def rule(source, **more):
    return AnswerRule.model_validate({"from": source, **more})


@pytest.mark.parametrize(
    ("source", "completion", "answer"),
    [
        ("fence", "Sure:\n```python\nx + 1\n```\nDone.", "x + 1"),
        ("fence", "```\nfirst\n```\nBetter:\n```ocaml\nlet x = 1\n\nlet y = 2\n```", "let x = 1\n\nlet y = 2"),
        ("fence", "````\na\n```\nb\n````\n", "a\n```\nb"),
        ("fence", "~~~\na\n```\n~~~", "a\n```"),
        ("fence", "- so:\n    ```py\n    if x:\n      y\n    ```", "if x:\n  y"),
        ("fence", "```ocaml\nlet f x = x", "let f x = x"),
        ("fence", "```\n```", ""),
        ("fence", "inline ```x + 1``` only", None),
        ("fence", "x + 1", None),
        ("tag", "<think>hm</think><answer> 4 </answer>", "4"),
        ("tag", "<answer>3</answer> no: <answer>4</answer> so", "4"),
        ("tag", "<answer>3", None),
        ("tag", "3</answer>", None),
        ("boxed", r"so \boxed{3} or \boxed{\frac{1}{\sqrt{2}}}.", r"\frac{1}{\sqrt{2}}"),
        ("boxed", r"\boxed{\{1, 2\}} and \boxed{3", r"\{1, 2\}"),
        ("boxed", "boxed{3}", None),
        ("last_line", "first\n  the last  \n \n", "the last"),
        ("last_line", " \n", None),
    ],
)
def test_where_the_answer_stands(source, completion, answer):
    assert take(rule(source), completion).text == answer


def test_a_pattern_and_a_named_tag():
    assert take(rule("regex", pattern=r"Answer: (\w+)"), "Answer: a, Answer: b").text == "b"
    assert take(rule("regex", pattern=r"\d+"), "1 and 22").text == "22"
    assert take(rule("regex", pattern=r"\d+"), "none") == Taken(None, "the answer's pattern does not match")
    assert take(rule("tag", tag="code"), "<code>x</code><answer>y</answer>").text == "x"


def test_a_pattern_that_takes_too_long_is_unknown(monkeypatch):
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.2)
    gate = Gate(name="any", kind="format", settings={"min_chars": 1})
    reward = compose(Reward(name="r", answer=rule("regex", pattern="(a|aa)+(b|c)"), gates=(gate,)))
    scored = reward.score([Answer("a" * 60, ROW)])
    assert scored.rewards == [None]
    assert scored.judgements["any"][0].reason == "the pattern took more than 0.2 s to find the answer"


@pytest.mark.parametrize(
    "wrong",
    [
        {"from": "regex"},
        {"from": "fence", "tag": "a"},
        {"from": "tag", "pattern": "a"},
        {"from": "regex", "pattern": "("},
        {"from": "json"},
    ],
)
def test_rules_that_make_no_sense(wrong):
    with pytest.raises(ValidationError):
        AnswerRule.model_validate(wrong)


TESTS = Gate(name="tests", kind="python_tests", settings={"answer": "expression", "arguments": ["x"], "tests": "tests"})
COMPLETIONS = ["I double it and add one.\n```python\n2 * x + 1\n```\nThat is all.", "2 * x + 1", "```\nx\n```"]


def test_a_right_answer_in_a_fence_earns_what_it_should():
    answers = [Answer(text, ROW, key=text, tokens=3) for text in COMPLETIONS]
    scored = compose(Reward(name="r", answer=FENCE, gates=(TESTS,))).score(answers)
    assert scored.rewards == [1.0, 0.0, 0.0]
    assert [judgement.reason for judgement in scored.judgements["tests"]][1] == "no fenced block"
    assert score_each([TESTS], answers, FENCE).judgements == scored.judgements, "training and evaluation judge alike"
    rows = completion_rows(scored, answers)
    assert [row["text"] for row in rows] == COMPLETIONS
    assert [row["answer"] for row in rows] == ["2 * x + 1", None, "x"]
    assert compose(Reward(name="r", gates=(TESTS,))).score(answers).rewards == [0.0, 1.0, 0.0], "as without `answer`"


def test_fenced_ocaml_passes_its_tests():
    gate = Gate(name="tests", kind="ocaml_tests", settings={"tests": "asserts"})
    fenced = "Here it is:\n\n```ocaml\nlet f x = x + 1\n```\n\nIt adds one."
    assert compose(Reward(name="r", answer=FENCE, gates=(gate,))).score([Answer(fenced, ROW)]).rewards == [1.0]


def test_a_gate_may_judge_the_whole_completion_and_a_penalty_sees_the_answer():
    brief = Gate(name="brief", kind="length", settings={"max_words": 3}, on_fail=0.25)
    whole = brief.model_copy(update={"judges": "completion"})
    empty = Penalty(name="nothing", when=Signal(signal="empty"), set=0.0)
    texts = [Answer("a long way to\n```\nx\n```", ROW), Answer("```\n```", ROW)]
    assert compose(Reward(name="r", answer=FENCE, gates=(brief,), penalties=(empty,))).score(texts).rewards == [1.0, 0.0]
    assert compose(Reward(name="r", answer=FENCE, gates=(whole,))).score(texts).rewards == [0.25, 1.0]


def test_degenerate_answers_are_tried_as_answers():
    short = Gate(name="short", kind="length", settings={"max_chars": 3})
    best = {probe.name: probe.text for probe in probes(Reward(name="r", answer=rule("boxed"), gates=(short,)), [ROW]) if probe.best}
    assert best == {"empty": r"\boxed{}", "one word": r"\boxed{x}"}
