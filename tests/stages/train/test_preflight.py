import pytest

from stages.contracts.model import Adapter, DatasetRef, ModelRef
from stages.contracts.preflight_card import Atom, PreflightCard, PreflightCondition, StepTime
from stages.contracts.reward import Example, Gate, Reward
from stages.train.model import Sampled
from stages.train.preflight import _judge, permissions
from stages.train.reasons import shorter_pays, starvation

ROW = {"id": "a", "prompt": "p", "answer": "1"}
EXACT = Gate(name="answer", kind="exact_match", settings={"column": "answer"})
FORMAT = Gate(name="format", kind="format", settings={"pattern": "[0-9]+"}, on_fail=0.0)


def card(**bounds):
    return PreflightCard(
        experiment="e",
        model=ModelRef(base="b", path="p", revision="r", adapter=Adapter()),
        conditions=(),
        completions=8,
        zero_signal_share={"below": bounds.get("zero_signal", 0.6)},
        truncated={"below": bounds.get("truncated", 0.3)},
        device="cpu",
        versions={},
        code={"some.stage": "c"},
    )


def condition(reward, null_control=False):
    data = DatasetRef(path="d", sha256="0")
    sampling = {"num_generations": 2, "max_completion_length": 24, "temperature": 1.0, "top_p": 1.0}
    return PreflightCondition(name="c", null_control=null_control, reward=reward, data=data, **sampling)


def judged(texts, reward=None, *, row=ROW, cut=(), null_control=False, **bounds):
    completions = [(row, Sampled(text=text, tokens=3, truncated=place in cut)) for place, text in enumerate(texts)]
    return _judge(card(**bounds), condition(reward or Reward(name="r", gates=(FORMAT, EXACT)), null_control), completions, 1.0)


def test_a_reward_with_signal_passes_and_its_numbers_are_counts():
    result, rows = judged(["1", "x", "2", "1"])
    assert (result.verdict, result.reasons) == ("pass", ())
    assert (result.completions, result.groups, result.zero_signal_groups, result.unknown) == (4, 2, 0, 0)
    assert result.reward_mean == 0.5 and result.atoms == (Atom(reward=1.0, completions=2), Atom(reward=0.0, completions=2))
    shares = {gate.gate: (gate.reached, gate.passed, gate.failed, gate.unknown) for gate in result.funnel}
    assert shares == {"format": (4, 3, 1, 0), "answer": (3, 2, 1, 0)}
    assert [(row["step"], row["group"], row["reward"]) for row in rows] == [(0, 0, 1.0), (0, 0, 0.0), (0, 1, 0.0), (0, 1, 1.0)]


@pytest.mark.parametrize(
    ("texts", "changes", "part"),
    [
        (["1", "1", "2", "2"], {}, "2 of 2 groups carry no signal (100% [34%, 100%]; the limit is 60%)"),
        (["1", "x", "2", "1"], {"cut": (1, 2)}, "2 of 4 completions are cut at 24 tokens (50% [15%, 85%]; the limit is 30%)"),
        (["1", "x", "2", "1"], {"row": {"id": "a", "prompt": "p"}}, "3 of 4 rewards are unknown (75% [30%, 95%]; the limit is 5%)"),
    ],
)
def test_a_reward_that_cannot_teach_is_refused_with_the_numbers(texts, changes, part):
    result, _ = judged(texts, **changes)
    assert result.verdict == "refuse" and any(part in reason for reason in result.reasons)


def test_exactly_at_the_bound_is_not_below_it():
    assert judged(["1", "x", "2", "2"], zero_signal=0.5)[0].verdict == "refuse"
    assert judged(["1", "x", "2", "2"], zero_signal=0.51)[0].verdict == "pass"


def test_a_failing_example_refuses_even_a_null_control():
    example = Example(completion="2", row=ROW, expect=1.0)
    reward = Reward(name="r", gates=(FORMAT, EXACT), examples=(example,))
    result, _ = judged(["1", "x"], reward, null_control=True)
    assert (
        result.verdict == "refuse"
        and "The reward example '2' scores 0, expected 1: " in result.reasons[0]
        and result.reasons[0].endswith(".")
    )


def test_a_null_control_has_no_signal_and_may_train():
    zero = Reward(name="zero", gates=(Gate(name="zero", kind="constant", settings={"score": 0.0}),))
    result, _ = judged(["1", "2", "3", "4"], zero, null_control=True)
    assert (result.verdict, result.zero_signal_groups, result.groups) == ("pass", 2, 2)


def test_an_atom_that_is_neither_the_lowest_nor_the_highest_warns():
    partial = Reward(name="r", gates=(FORMAT.model_copy(update={"on_fail": 0.21}), EXACT))
    result, _ = judged(["1", "x", "x", "1"], partial)
    assert result.verdict == "warn" and "2 of 4 completions hold exactly the reward 0.21" in result.reasons[0]


BRIEF = Gate(name="brief", kind="length", settings={"max_words": 5})


def test_the_empty_answer_as_the_best_one_is_refused_with_what_to_change():
    result, _ = judged(["1 2 3 4 5 6", "x", "a b c d e f g", "1"], Reward(name="r", gates=(BRIEF,)))
    assert result.verdict == "refuse"
    assert result.reasons == ('The degenerate answer "" (empty) earns 1; no right answer earns more than 1: add a gate that fails it.',)
    assert [(probe.name, probe.reward, probe.best) for probe in result.probes] == [
        ("empty", 1.0, True),
        ("one word", 1.0, True),
        ("repeated", 0.0, False),
    ]


def test_an_author_who_knows_is_warned():
    reward = Reward(name="r", gates=(BRIEF,), examples=(Example(completion="", row=ROW, expect=1.0),))
    result, _ = judged(["1 2 3 4 5 6", "x", "a b c d e f g", "1"], reward)
    assert result.verdict == "warn" and "an example says so, and training will find it" in result.reasons[0]


def test_neither_an_inverted_reward_nor_a_null_control_is_asked_for_its_optimum():
    texts = ["1 2 3 4 5 6", "x", "a b c d e f g", "1"]
    assert judged(texts, Reward(name="r", gates=(BRIEF,), invert=True))[0].verdict == "pass"
    assert judged(texts, Reward(name="r", gates=(BRIEF,)), null_control=True)[0].verdict == "pass"


def test_shorter_answers_that_earn_more_are_said():
    assert shorter_pays([(3, 1.0)] * 5 + [(20, 0.0)] * 10 + [(20, 1.0)] * 10) == [
        "The shortest 5 of 25 completions (up to 3 tokens) earn 1.00 on average, the rest 0.50: training will shorten the answers. "
        "Ask for what an answer must hold, or for a least length."
    ]
    assert shorter_pays([(3, 0.7)] * 5 + [(20, 0.0)] * 10 + [(20, 1.0)] * 10) == [], "0.2 ahead is within what few completions may do"
    assert shorter_pays([(3, 1.0)] * 5 + [(3, 0.0)] * 20) == [], "all are of one length"
    assert shorter_pays([(3, 1.0)] * 5 + [(20, 0.0)] * 10) == [], "too few to say"
    assert shorter_pays([(3, 1.0)] * 5 + [(9, None)] * 50 + [(20, 1.0)] * 20) == [], "no reward differs"


def test_what_a_step_will_take_is_predicted_from_what_preflight_took():
    asked = condition(Reward(name="r", gates=(FORMAT, EXACT))).model_copy(update={"completions_per_step": 64})
    completions = [(ROW, Sampled(text=text, tokens=3, truncated=False)) for text in ("1", "x", "2", "1")]
    result, _ = _judge(card(), asked, completions, 2.0)
    assert (result.step.completions, result.step.sampling) == (64, 32.0), "2 s for 4 completions"
    assert 0 <= result.step.scoring < 10 and result.step.slowest_gate in ("format", "answer")
    assert judged(["1", "x"])[0].step is None, "cards from before do not say how large a step is"


def test_a_verifier_that_starves_training_is_said():
    sentences = starvation(StepTime(completions=64, sampling=2.0, scoring=6.0, slowest_gate="tests"))
    assert "the 64 completions of a step will take about 6.0 s, sampling them 2.0 s: 75% of that time waits for gates" in sentences[0]
    assert "most of it for tests" in sentences[0]
    assert starvation(StepTime(completions=64, sampling=6.0, scoring=6.0, slowest_gate="tests")) == []
    assert starvation(StepTime(completions=64, sampling=0.1, scoring=0.9, slowest_gate="tests")) == []
    assert starvation(None) == []


@pytest.mark.parametrize(
    ("verdicts", "supervised", "may_train"),
    [
        (("refuse", "pass"), False, [False, False]),
        (("refuse", "pass"), True, [False, True]),
        (("warn", "pass"), False, [True, True]),
        (("pass", "refuse"), False, [True, False]),
    ],
)
def test_a_null_control_does_not_train_when_all_that_it_is_compared_with_is_refused(verdicts, supervised, may_train):
    reward = Reward(name="r", gates=(FORMAT, EXACT))
    conditions = tuple(condition(reward, name == "zero").model_copy(update={"name": name}) for name in ("shaped", "zero"))
    given = judged(["1", "x", "2", "1"])[0]
    results = [
        given.model_copy(update={"condition": name, "verdict": verdict, "reasons": ("Bad.",) if verdict != "pass" else ()})
        for name, verdict in zip(("shaped", "zero"), verdicts, strict=True)
    ]
    allowed = permissions(card().model_copy(update={"conditions": conditions, "supervised": supervised}), results)
    assert [permission.train for permission in allowed] == may_train
    assert all(permission.train != bool(permission.reasons) for permission in allowed)
