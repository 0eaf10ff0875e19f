"""The composed reward: which gate decides, three values, and a trainer that never sees an exception, Inf or a wrong length."""

import math
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.contracts.plugin import Answer, Judgement
from stages.contracts.reward import Example, Gate, Reward
from stages.train.rewards.compose import Composed, ReadyGate, check_examples, compose, sandbox, score_each

FORMAT = Gate(name="format", kind="format", settings={"max_chars": 3}, on_fail=0.0)
MATCH = Gate(name="match", kind="exact_match", settings={"column": "answer"})


def answers(*texts, row=None):
    return [Answer(text, {"answer": "yes"} if row is None else row, key=text) for text in texts]


def composed(*outcomes, invert=False, on=None):
    """A reward whose gates give these outcomes in order to every answer; `on` holds (on_pass, on_fail) a gate."""
    gates = []
    for number, outcome in enumerate(outcomes):
        on_pass, on_fail = on[number] if on else (None, None)
        card = Gate(name=f"g{number}", kind="constant", settings={}, on_pass=on_pass, on_fail=on_fail)

        def judge(settings, answers, outcome=outcome):
            if isinstance(outcome, Exception):
                raise outcome
            return outcome(answers) if callable(outcome) else [outcome for _ in answers]

        gates.append(ReadyGate(card, types.SimpleNamespace(judge=judge), None))
    return Composed(Reward(name="r", gates=tuple(gate.card for gate in gates), invert=invert), tuple(gates))


def test_first_gate_that_decides():
    scored = compose(Reward(name="r", gates=(FORMAT, MATCH))).score(answers("toolong", "yes", "no"))
    assert scored.rewards == [0.0, 1.0, 0.0]
    assert [judgement.status for judgement in scored.judgements["format"]] == ["fail", "pass", "pass"]
    assert scored.judgements["match"][0] is None
    assert [judgement.status for judgement in scored.judgements["match"][1:]] == ["pass", "fail"]
    assert set(scored.seconds) == {"format", "match"} and all(value >= 0 for value in scored.seconds.values())


def test_declared_rewards_and_the_last_gates_own_score():
    passed, failed = Judgement("pass", 0.9), Judgement("fail", 0.2)
    batch = answers("a")
    assert composed(passed, failed, on=[(0.7, None), (None, None)]).score(batch).rewards == [0.7]
    assert composed(failed, passed, on=[(0.7, None), (None, None)]).score(batch).rewards == [0.9]
    assert composed(passed, failed).score(batch).rewards == [0.2]
    assert composed(failed, failed, on=[(None, None), (None, 0.5)]).score(batch).rewards == [0.5]
    assert composed(failed, passed, on=[(None, 0.0), (None, None)]).score(batch).rewards == [0.0]


def test_inversion_turns_numbers_and_leaves_unknown():
    scored = compose(Reward(name="r", gates=(MATCH,), invert=True)).score([*answers("yes", "no"), *answers("yes", row={"answer": 3})])
    assert scored.rewards == [0.0, 1.0, None]


def test_unknown_ends_the_way():
    scored = composed(Judgement("unknown", None, "crash"), Judgement("pass", 1.0), on=[(1.0, 0.0), (None, None)]).score(answers("a"))
    assert scored.rewards == [None]
    assert scored.judgements["g1"] == [None]


def test_a_gate_that_raises_is_unknown_for_its_batch():
    scored = composed(ZeroDivisionError("boom \ud800")).score(answers("a", "b"))
    assert scored.rewards == [None, None]
    assert scored.judgements["g0"][0] == Judgement("unknown", None, "the gate broke: ZeroDivisionError: boom \\ud800", broken=True)


@pytest.mark.parametrize("broken", [lambda answers: [], lambda answers: None, lambda answers: [1] * len(answers)])
def test_a_gate_that_answers_nonsense_is_unknown(broken):
    scored = composed(broken).score(answers("a", "b"))
    assert scored.rewards == [None, None]
    assert [judgement.status for judgement in scored.judgements["g0"]] == ["unknown", "unknown"]


@pytest.mark.parametrize("marks", [{"seen": 1}, {1: True}, None])
def test_marks_that_are_neither_true_nor_false_are_unknown(marks):
    assert composed(Judgement("pass", 1.0, marks=marks)).score(answers("a")).rewards == [None]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, -0.1, 1.1])
def test_a_score_outside_0_to_1_is_unknown(score):
    assert composed(Judgement("pass", score)).score(answers("a")).rewards == [None]


JUDGEMENTS = st.one_of(
    st.just(Judgement("unknown", None)),
    st.builds(Judgement, st.sampled_from(["pass", "fail"]), st.floats(0, 1)),
    st.just(ValueError("x")),
    st.just(lambda answers: []),
)
REWARDS = st.one_of(st.none(), st.floats(-2, 2))


@given(st.lists(st.tuples(JUDGEMENTS, REWARDS, REWARDS), min_size=1, max_size=5), st.booleans(), st.integers(0, 4))
def test_unknown_is_never_a_number(gates, invert, count):
    texts = answers(*"abcd"[:count])
    scored = composed(*(gate[0] for gate in gates), invert=invert, on=[gate[1:] for gate in gates]).score(texts)
    assert len(scored.rewards) == count
    for index, reward in enumerate(scored.rewards):
        way = [judgements[index] for judgements in scored.judgements.values() if judgements[index] is not None]
        assert way, "the first gate sees every answer"
        assert (reward is None) == (way[-1].status == "unknown")
        assert all(judgement.status != "unknown" for judgement in way[:-1])
        assert reward is None or math.isfinite(reward)


@given(st.lists(st.tuples(JUDGEMENTS, REWARDS, REWARDS), min_size=1, max_size=5))
def test_inverted_is_one_minus(gates):
    outcomes, on = [gate[0] for gate in gates], [gate[1:] for gate in gates]
    (plain,) = composed(*outcomes, on=on).score(answers("a")).rewards
    (turned,) = composed(*outcomes, on=on, invert=True).score(answers("a")).rewards
    assert turned == (None if plain is None else 1.0 - plain)


def test_a_declared_reward_is_a_finite_number_and_a_kind_is_a_gate():
    for value in (math.inf, math.nan):
        with pytest.raises(ValueError):
            Gate(name="g", kind="constant", settings={}, on_pass=value)
    with pytest.raises(KeyError):
        compose(Reward(name="r", gates=(Gate(name="g", kind="compose", settings={}),)))


def test_score_each_sends_every_answer_to_every_gate():
    judgements = score_each([FORMAT, MATCH], answers("toolong", "yes")).judgements
    assert [judgement.status for judgement in judgements["format"]] == ["fail", "pass"]
    assert [judgement.status for judgement in judgements["match"]] == ["fail", "pass"]
    assert sandbox([FORMAT, MATCH]) == "none needed"


def test_examples_belong_to_the_reward_before_inversion():
    reward = Reward(
        name="r",
        gates=(FORMAT, MATCH),
        invert=True,
        examples=(
            Example(completion="yes", row={"answer": "yes"}, expect=1.0),
            Example(completion="no", row={"answer": "yes"}, expect=1.0),
            Example(completion="yes", row={}, expect=0.0),
            Example(completion="long text", row={}, expect=0.0),
        ),
    )
    outcomes = check_examples(reward)
    assert [(outcome.got, outcome.ok) for outcome in outcomes] == [(1.0, True), (0.0, False), (None, False), (0.0, True)]
    assert outcomes[1].why == "format: pass; match: fail (differs from column 'answer')"
    assert outcomes[3].why == "format: fail (9 characters, more than 3)"


def test_every_stage_scores_through_the_same_gates():
    """Training, evaluation, rescore and preflight compose gates; none of them has a verifier, or a way to a verdict, of its own."""
    root = Path(__file__).parents[4] / "stages"
    texts = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    outside = {name: text for name, text in texts.items() if not name.startswith(("train/rewards/", "train/verifiers/"))}
    assert [name for name, text in outside.items() if "stages.train.verifiers" in text and "import" in text] == []
    assert all(
        "stages.train.rewards.compose import" in texts[f"train/{stage}.py"] for stage in ("scoring", "evaluate", "rescore", "preflight")
    )
