"""Weighted rewards: partial credit, needs, penalties in three values, curriculum, cap. Unknown never becomes a number."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.contracts.plugin import Answer, Judgement
from stages.contracts.reward import Example, Gate, Penalty, Phase, Reward, Scale
from stages.train.recorder import Journal
from stages.train.rewards.compose import Composed, ReadyGate, check_examples, compose
from stages.train.scoring import TrainingReward

PASS, FAIL, UNKNOWN = Judgement("pass", 1.0), Judgement("fail", 0.0), Judgement("unknown", None)
SEED_2 = {"structure": (0.05, None), "types": (0.20, None), "compile": (0.10, "types"), "tests": (0.65, "compile")}


def reward(gates, **changes):
    """A weighted reward over constant gates: gates = {name: (weight, needs)}."""
    cards = tuple(
        Gate(name=name, kind="constant", settings={"score": 1.0}, weight=weight, needs=needs) for name, (weight, needs) in gates.items()
    )
    return Reward(name="r", combine="weighted", gates=cards, **changes)


def scored(card, *judgements, truncated=False, progress=0.0):
    """The card's gates say these things, in order, of one completion."""
    return composed(card, [judgements]).score([Answer("text", {}, truncated=truncated, key="0")], progress)


def composed(card, table):
    """A reward whose gates say table[answer's key][gate]."""

    def gate(number, gate_card):
        def judge(settings, answers):
            return [table[int(answer.key)][number] for answer in answers]

        return ReadyGate(gate_card, types.SimpleNamespace(judge=judge), None)

    return Composed(card, tuple(gate(number, gate_card) for number, gate_card in enumerate(card.gates)))


def half(status="fail"):
    return Judgement(status, 0.5)


def test_seed_2_by_hand():
    card = reward(SEED_2)
    assert scored(card, PASS, PASS, PASS, PASS).rewards == [1.0]
    assert scored(card, PASS, half(), PASS, PASS).rewards == pytest.approx([0.05 + 0.10])
    assert scored(card, PASS, half(), PASS, PASS).judgements["compile"] == [None]
    assert scored(card, PASS, half(), PASS, PASS).judgements["tests"] == [None]
    assert scored(card, FAIL, PASS, PASS, Judgement("fail", 4 / 7)).rewards == pytest.approx([0.20 + 0.10 + 0.65 * 4 / 7])
    assert scored(card, PASS, FAIL, PASS, PASS).rewards == pytest.approx([0.05])
    assert scored(card, FAIL, FAIL, PASS, PASS).rewards == [0.0], "the seed paid 0.21 for text that does not parse"


def test_an_unknown_gate_that_is_needed_makes_the_reward_unknown():
    card = reward(SEED_2)
    for place in range(4):
        judgements = [PASS] * 4
        judgements[place] = UNKNOWN
        assert scored(card, *judgements).rewards == [None]
    assert scored(card, PASS, UNKNOWN, PASS, PASS).judgements["tests"] == [None]
    assert scored(card, PASS, FAIL, UNKNOWN, UNKNOWN).rewards == pytest.approx([0.05]), "neither was reached"


def test_an_unknown_gate_of_no_weight_counts_only_where_others_need_it():
    alone = reward({"free": (0.0, None), "paid": (1.0, None)})
    assert scored(alone, UNKNOWN, PASS).rewards == [1.0]
    before = reward({"free": (0.0, None), "middle": (0.0, "free"), "paid": (1.0, "middle")})
    assert scored(before, UNKNOWN, PASS, PASS).rewards == [None]
    assert scored(before, PASS, UNKNOWN, PASS).rewards == [None]


def test_the_scale_comes_last_and_unknown_has_none():
    """Seed 3's `2 - words/16`: the gate's score in 0..1 becomes the reward that was meant."""
    length = Gate(name="words", kind="length", settings={"formula": "2 - words/16", "low": -2.0, "high": 2.0})
    short = Reward(name="short", gates=(length,), scale=Scale(low=-2.0, high=2.0))
    answers = [Answer("one", {}), Answer("w " * 16, {}), Answer("w " * 32, {}), Answer("", {})]
    assert compose(short).score(answers).rewards == pytest.approx([2 - 1 / 16, 1.0, 0.0, 2.0])
    inverted = short.model_copy(update={"invert": True})
    assert compose(inverted).score(answers).rewards == pytest.approx([-(2 - 1 / 16), -1.0, 0.0, -2.0])
    unknown = Reward(name="lost", gates=(Gate(name="x", kind="exact_match", settings={"column": "none"}),), scale=short.scale)
    assert compose(unknown).score(answers).rewards == [None] * 4


def test_inversion_cap_and_penalty_in_order():
    half_off = Penalty(name="half", when={"signal": "truncated"}, factor=0.5)
    card = reward({"a": (0.8, None), "b": (0.2, None)}, penalties=(half_off,), cap=0.3, invert=True)
    assert scored(card, PASS, FAIL).rewards == pytest.approx([0.7])
    assert scored(card, Judgement("fail", 0.5), FAIL, truncated=True).rewards == pytest.approx([0.8])
    assert scored(card, UNKNOWN, PASS).rewards == [None]
    none = Penalty(name="none", when={"signal": "truncated"}, set=0.0)
    assert scored(card.model_copy(update={"penalties": (none, half_off)}), PASS, PASS, truncated=True).rewards == [1.0]


RUNAWAY = {"all": [{"signal": "truncated"}, {"gate": "structure", "mark": "end_marker", "holds": False}]}


@pytest.mark.parametrize(
    ("truncated", "structure", "expected"),
    [
        (True, Judgement("fail", 0.0, marks={"end_marker": False}), 0.0),
        (True, Judgement("fail", 0.0, marks={"end_marker": True}), 0.5),
        (False, Judgement("fail", 0.0, marks={"end_marker": False}), 0.5),
        (True, Judgement("pass", 1.0), 0.0),
        (True, UNKNOWN, None),
        (False, UNKNOWN, 0.5),
        (True, Judgement("unknown", None, marks={"end_marker": True}), 0.5),
        (True, Judgement("unknown", None, marks={"end_marker": False}), 0.0),
    ],
)
def test_seed_2_runaway(truncated, structure, expected):
    card = reward(
        {"structure": (0.0, None), "a": (0.5, None), "b": (0.5, None)}, penalties=(Penalty(name="runaway", when=RUNAWAY, set=0.0),)
    )
    result = scored(card, structure, PASS, FAIL, truncated=truncated)
    assert result.rewards == [expected]
    assert result.penalties == {"runaway": [{0.0: True, 0.5: False, None: None}[expected]]}


def test_conditions_on_a_gate_behind_an_unknown_one_are_unknown():
    gates = {"first": (0.0, None), "second": (0.0, "first"), "paid": (1.0, None)}
    missing = Penalty(name="missing", when={"gate": "second", "status": "not_reached"}, set=0.0)
    card = reward(gates, penalties=(missing,))
    assert scored(card, UNKNOWN, PASS, PASS).rewards == [None]
    assert scored(card, FAIL, PASS, PASS).rewards == [0.0]
    assert scored(card, PASS, UNKNOWN, PASS).rewards == [None]
    assert scored(card, PASS, PASS, PASS).rewards == [1.0]
    either = missing.model_copy(
        update={
            "when": Penalty.model_validate(
                {"name": "x", "when": {"any": [{"signal": "empty", "holds": False}, {"gate": "second", "status": "pass"}]}, "factor": 0.25}
            ).when,
            "set": None,
            "factor": 0.25,
        }
    )
    assert scored(reward(gates, penalties=(either,)), UNKNOWN, PASS, PASS).rewards == [0.25], "one that holds outweighs"


def test_penalties_work_on_first_decides():
    none = Penalty(name="none", when={"gate": "g", "status": "pass"}, set=0.25)
    card = Reward(name="r", gates=(Gate(name="g", kind="constant", settings={"score": 1.0}, on_pass=2.0),), penalties=(none,))
    assert compose(card).score([Answer("x", {})]).rewards == [0.25]
    assert compose(card.model_copy(update={"penalties": (), "cap": 0.5})).score([Answer("x", {})]).rewards == [0.5]


def test_curriculum_by_progress():
    phases = (Phase(**{"from": 0.25}, weights={"a": 0.5, "b": 0.5}), Phase(**{"from": 0.5}, weights={"a": 0.0, "b": 1.0}))
    card = reward({"a": (1.0, None), "b": (0.0, None)}, curriculum=phases)
    for progress, expected in [(0.0, 1.0), (0.2499, 1.0), (0.25, 0.5), (0.4999, 0.5), (0.5, 0.0), (1.0, 0.0)]:
        result = scored(card, PASS, FAIL, progress=progress)
        assert result.rewards == [expected]
        assert (result.judgements["a"], result.judgements["b"]) == ([PASS], [FAIL]), "unweighted scores do not change with the phase"
    assert scored(card, PASS, UNKNOWN, progress=0.0).rewards == [1.0]
    assert scored(card, PASS, UNKNOWN, progress=0.25).rewards == [None]


def test_examples_of_truncated_completions():
    penalty = Penalty(name="cut", when={"signal": "truncated"}, set=0.0)
    shown = (Example(completion="x", row={}, expect=1.0), Example(completion="x", row={}, expect=0.0, truncated=True))
    card = reward({"a": (1.0, None)}, penalties=(penalty,), examples=shown, invert=True)
    outcomes = check_examples(card)
    assert [(outcome.ok, outcome.why) for outcome in outcomes] == [(True, "a: pass"), (True, "a: pass; penalty cut")]


SAID = st.one_of(st.just(UNKNOWN), st.builds(Judgement, st.sampled_from(["pass", "fail"]), st.floats(0, 1)))


@st.composite
def trees(draw):
    """A weighted card of up to six gates in any shape of `needs`, with penalties, a phase and a cap; what its gates say of some answers."""
    count = draw(st.integers(1, 6))
    parts = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count).filter(any))
    names = [f"g{number}" for number in range(count)]
    weights = [part / sum(parts) for part in parts]
    needs = [draw(st.sampled_from([None, *names[:place]])) for place in range(count)]
    leaves = st.one_of(
        st.builds(lambda signal, holds: {"signal": signal, "holds": holds}, st.sampled_from(["truncated", "empty"]), st.booleans()),
        st.builds(
            lambda gate, status, holds: {"gate": gate, "status": status, "holds": holds},
            st.sampled_from(names),
            st.sampled_from(["pass", "fail", "not_reached"]),
            st.booleans(),
        ),
    )
    groups = st.recursive(
        leaves,
        lambda inner: st.builds(
            lambda key, members: {key: members}, st.sampled_from(["all", "any"]), st.lists(inner, min_size=1, max_size=3)
        ),
    )
    penalties = tuple(
        Penalty.model_validate(
            {"name": f"p{number}", "when": draw(groups), draw(st.sampled_from(["set", "factor"])): draw(st.floats(0, 1))}
        )
        for number in range(draw(st.integers(0, 2)))
    )
    reverse = dict(zip(names, reversed(weights), strict=True))
    card = reward(
        {name: (weight, need) for name, weight, need in zip(names, weights, needs, strict=True)},
        penalties=penalties,
        curriculum=draw(st.sampled_from([(), (Phase(**{"from": 0.5}, weights=reverse),)])),
        cap=draw(st.none() | st.floats(0, 1, exclude_min=True)),
        invert=draw(st.booleans()),
    )
    table = draw(st.lists(st.lists(SAID, min_size=count, max_size=count), min_size=1, max_size=4))
    answers = [Answer(draw(st.sampled_from(["", "x"])), {}, truncated=draw(st.booleans()), key=str(number)) for number in range(len(table))]
    return card, table, answers, draw(st.sampled_from([0.0, 0.6]))


def weight_of(card, progress):
    if card.curriculum and progress >= 0.5:
        return card.curriculum[0].weights
    return {gate.name: gate.weight for gate in card.gates}


@given(trees(), st.randoms(use_true_random=False))
def test_unknown_never_becomes_a_number_and_what_is_a_number_hangs_on_nothing_unknown(case, shuffler):
    """Rewards stay in 0..1. Whatever an unknown gate would have said, a reward that is given all the same does not change; nor does the
    order of completions matter."""
    card, table, answers, progress = case
    result = composed(card, table).score(answers, progress)
    weights, needs = weight_of(card, progress), {gate.name: gate.needs for gate in card.gates}
    for index, got in enumerate(result.rewards):
        assert got is None or 0 <= got <= 1
        judgements = {name: judged[index] for name, judged in result.judgements.items()}
        unknown = {name for name, judgement in judgements.items() if judgement and judgement.status == "unknown"}
        lost = any(weights[name] > 0 and (name in unknown or needs[name] in unknown) for name in weights)
        assert got is None if lost else unknown or got is not None
        for name, judgement in judgements.items():
            up = needs[name]
            assert (judgement is not None) == (up is None or (judgements[up] is not None and judgements[up].status == "pass"))
    for settled in (Judgement("pass", 1.0), Judgement("pass", 0.25), Judgement("fail", 0.0), Judgement("fail", 0.75)):
        settled_table = [[settled if judgement.status == "unknown" else judgement for judgement in line] for line in table]
        after = composed(card, settled_table).score(answers, progress).rewards
        assert all(before is None or before == now for before, now in zip(result.rewards, after, strict=True))
    mixed = list(enumerate(answers))
    shuffler.shuffle(mixed)
    again = composed(card, table).score([answer for _, answer in mixed], progress).rewards
    assert again == [result.rewards[index] for index, _ in mixed]


def test_the_trainer_s_progress_chooses_the_phase(tmp_path):
    phase = Phase(**{"from": 0.5}, weights={"low": 0.0, "high": 1.0})
    cards = tuple(
        Gate(name=name, kind="constant", settings={"score": score}, weight=weight)
        for name, score, weight in [("low", 0.25, 1.0), ("high", 0.75, 0.0)]
    )
    card = Reward(name="r", combine="weighted", gates=cards, curriculum=(phase,))
    function = TrainingReward(card, rows=[{"id": "a"}], seed=1, group=1, ends={0}, journal=Journal(tmp_path), attempt="a1")
    for done, expected in [(0, 0.25), (4, 0.25), (5, 0.75), (9, 0.75)]:
        state = types.SimpleNamespace(global_step=done, max_steps=10)
        assert function(["p"], ["x"], [[0]], id=["a"], trainer_state=state) == [expected]
        assert (function.pending[done + 1]["gate.low.score"], function.pending[done + 1]["gate.high.score"]) == (0.25, 0.75)
