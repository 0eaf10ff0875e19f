from types import SimpleNamespace

import pytest

from stages.contracts.expressions import AllOf, Signal, Status
from stages.contracts.history import COMPLETIONS_COLUMNS
from stages.contracts.plugin import Answer, Judgement
from stages.contracts.reward import Example, Gate, Penalty, Reward
from stages.train import evaluate, rescore
from stages.train.attempts import Stopped
from stages.train.evaluate import combined_score
from stages.train.model import Sampled
from stages.train.recorder import Journal
from stages.train.rewards.compose import Scored, check_examples, compose
from stages.train.scoring import TrainingReward, batch_cells, zero_signal_groups

REWARD = Reward(
    name="shaped",
    gates=(
        Gate(name="format", kind="format", settings={"pattern": "[0-9]+"}, on_fail=0.0),
        Gate(name="answer", kind="exact_match", settings={"column": "answer"}),
    ),
    unknown={"limit": 0.25},
)
ROWS = {"a": {"id": "a", "answer": "1"}, "b": {"id": "b", "answer": "2"}, "no-answer": {"id": "no-answer"}}


@pytest.mark.parametrize(
    ("rewards", "silent", "ranges"),
    [
        ([0.0, 0.0, 1.0, 1.0], 2, [0.0, 0.0]),
        ([0.0, 1.0, 0.5, 0.5], 1, [1.0, 0.0]),
        ([None, 1.0, 0.25, 0.5], 1, [0.0, 0.25]),
        ([None, None, 0.0, 1.0], 1, [0.0, 1.0]),
    ],
)
def test_a_group_without_two_different_known_rewards_has_no_signal(rewards, silent, ranges):
    assert zero_signal_groups(rewards, 2) == (silent, ranges)


def test_the_metrics_of_a_batch_by_hand():
    texts = ["1", "x", "3", "2"]
    answers = [Answer(text, ROWS["a" if place < 2 else "b"], place == 1, tokens=2) for place, text in enumerate(texts)]
    cells = batch_cells(compose(REWARD).score(answers), answers, 2)
    seconds = {name: cells.pop(name) for name in ("gate.format.seconds", "gate.answer.seconds")}
    assert all(value >= 0 for value in seconds.values())
    assert cells == {
        "reward": 0.5,
        "group_range": 1.0,
        "zero_signal_share": 0.0,
        "unknown_share": 0.0,
        "truncated": 0.25,
        "completion_tokens": 2.0,
        "gate.format.reach_share": 1.0,
        "gate.format.pass_share": 0.75,
        "gate.format.unknown_share": 0.0,
        "gate.format.score": 0.75,
        "gate.answer.reach_share": 0.75,
        "gate.answer.pass_share": pytest.approx(2 / 3),
        "gate.answer.unknown_share": 0.0,
        "gate.answer.score": pytest.approx(2 / 3),
    }


def test_penalties_are_counted_over_the_completions_where_they_are_known():
    when = {"any": [{"signal": "truncated"}, {"gate": "answer", "status": "fail"}]}
    penalty = Penalty.model_validate({"name": "too-bad", "when": when, "factor": 0.5})
    texts, rows = ["1", "x", "3", "2"], [ROWS["a"], ROWS["a"], ROWS["b"], ROWS["no-answer"]]
    answers = [Answer(text, row, truncated=place == 1) for place, (text, row) in enumerate(zip(texts, rows, strict=True))]
    scored = compose(REWARD.model_copy(update={"penalties": (penalty,)})).score(answers)
    assert scored.penalties == {"too-bad": [False, True, True, None]}
    assert batch_cells(scored, answers, 2)["penalty.too-bad.share"] == pytest.approx(2 / 3)


def reward(tmp_path):
    return TrainingReward(REWARD, rows=list(ROWS.values()), seed=1, group=2, ends={0}, journal=Journal(tmp_path), attempt="a1")


def call(function, texts, names, ids=None, step=4):
    ids = ids or [[5, 0]] * len(texts)
    state = SimpleNamespace(global_step=step)
    return function(["p"] * len(texts), texts, ids, id=names, trainer_state=state, log_metric=None)


def test_the_reward_function_returns_one_value_each_and_records_the_step(tmp_path):
    function = reward(tmp_path)
    assert call(function, ["1", "2", "2", "x"], ["a", "a", "b", "b"], ids=[[5, 0], [5, 6], [0], []]) == [1.0, 0.0, 1.0, 0.0]
    assert function.pending[5]["reward"] == 0.5 and function.pending[5]["truncated"] == 0.5
    rows = function.journal.completion_rows()
    assert [(row["step"], row["group"], row["prompt_id"], row["truncated"], row["tokens"]) for row in rows] == [
        (5, 0, "a", False, 2),
        (5, 0, "a", True, 2),
        (5, 1, "b", False, 1),
        (5, 1, "b", True, 0),
    ]
    assert [row["gate.answer.status"] for row in rows] == ["pass", "fail", "pass", "not_reached"]


def test_unknown_rewards_are_none_up_to_the_limit_and_stop_the_attempt_beyond(tmp_path):
    function = reward(tmp_path)
    assert call(function, ["1", "1", "2", "7"], ["a", "a", "b", "no-answer"]) == [1.0, 1.0, 1.0, None]
    assert function.pending[5]["unknown_share"] == 0.25
    with pytest.raises(Stopped, match=r"2 of 4 rewards of step 6 are unknown, above the limit of 25%: .*answer") as caught:
        call(function, ["1", "1", "2", "7"], ["a", "a", "no-answer", "no-answer"], step=5)
    assert caught.value.failure == "verifier"
    assert len(function.journal.completion_rows()) == 8


def test_gates_see_how_many_tokens_the_model_wrote(tmp_path):
    function = reward(tmp_path)
    brief = Gate(name="brief", kind="length", settings={"max_tokens": 2})
    function.card = Reward(name="brief", gates=(brief,))
    function.composed = compose(function.card)
    assert call(function, ["a b c", "a"], ["a", "a"], ids=[[5, 2], [5, 6, 2]]) == [1.0, 0.0]


LOOKS_RIGHT = AllOf(all=(Status(gate="format", status="pass"), Status(gate="verify", status="pass", holds=False)))
PASS, FAIL, UNKNOWN = Judgement("pass", 1.0), Judgement("fail", 0.0), Judgement("unknown", None, "no answer")


def combined(format, verify):
    answers = [Answer(text="by simp", row={}) for _ in format]
    judgements = combined_score(LOOKS_RIGHT, answers, Scored([], {"format": format, "verify": verify}))
    return [(judgement.status, judgement.score) for judgement in judgements]


def test_looks_right_and_does_not_verify():
    assert combined([PASS, PASS, FAIL, FAIL], [FAIL, PASS, FAIL, PASS]) == [("pass", 1.0), ("fail", 0.0), ("fail", 0.0), ("fail", 0.0)]


def test_what_hangs_on_an_unknown_is_unknown_and_what_does_not_is_known():
    assert combined([PASS, FAIL, UNKNOWN, UNKNOWN], [UNKNOWN, UNKNOWN, FAIL, PASS]) == [("unknown", None), ("fail", 0.0)] * 2


def test_signals_of_the_completion_count_too():
    cut = AllOf(all=(Signal(signal="truncated"), Status(gate="format", status="pass")))
    answers = [Answer(text="x", row={}, truncated=True), Answer(text="x", row={})]
    assert [judgement.status for judgement in combined_score(cut, answers, Scored([], {"format": [PASS, PASS]}))] == ["pass", "fail"]


def test_an_attack_earns_nothing_in_any_stage(tmp_path):
    """Training, evaluation, `octavo rescore`, and the examples of check and preflight: the same answers, the same verdicts."""
    gate = Gate(name="tests", kind="python_tests", settings={"credit": {"runs": 0.0, "share": 0.0, "all": 1.0}})
    row = {"id": "a", "tests": [{"arguments": [1], "expected": 2}]}
    attacks = [
        "class Yes(int):\n  def __eq__(self, other): return True\ndef f(x): return Yes()",
        "import os\nos.write(1, b'value 2\\n')\nos._exit(0)",
        "import sys\nsys.modules['json'].dumps = lambda *a, **k: '2'\ndef f(x): return None",
    ]
    texts = [*attacks, "def f(x): return x + 1"]
    earned = [0.0] * len(attacks) + [1.0]

    reward = Reward(
        name="r",
        gates=(gate,),
        examples=tuple(Example(completion=text, row=row, expect=expect) for text, expect in zip(texts, earned, strict=True)),
    )
    assert all(outcome.ok for outcome in check_examples(reward))

    training = TrainingReward(reward, rows=[row], seed=1, group=2, ends={0}, journal=Journal(tmp_path), attempt="0001")
    state = SimpleNamespace(global_step=0, max_steps=1)
    assert training(["p"] * len(texts), texts, [[5, 0]] * len(texts), id=["a"] * len(texts), trainer_state=state) == earned

    card = SimpleNamespace(seed=1, scores=(gate,), combined=(), answer=None)
    evaluated = evaluate._evaluated(card, [row], [[Sampled(text, 2, False) for text in texts]])
    assert [completion["gate.tests.score"] for completion in evaluated] == earned

    stored = [{"prompt_id": "a", "text": text, "truncated": False, "tokens": 2, "step": 1} for text in texts]
    stored = [{**dict.fromkeys(COMPLETIONS_COLUMNS), **completion} for completion in stored]
    again = rescore._scored_again(SimpleNamespace(seed=1, train={}, reward=reward), compose(reward), stored, {"a": row})
    assert [completion["reward"] for completion in again] == earned
