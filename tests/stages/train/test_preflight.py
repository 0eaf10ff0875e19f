import pytest

from stages.contracts.model_card import AdapterCard, DataCard, ModelCard
from stages.contracts.preflight_card import Atom, PreflightCard, PreflightCondition
from stages.contracts.reward_card import ExampleCard, GateCard, RewardCard
from stages.train.model import Sampled
from stages.train.preflight import _judge

ROW = {"id": "a", "prompt": "p", "answer": "1"}
EXACT = GateCard(name="answer", kind="exact_match", settings={"column": "answer"})
FORMAT = GateCard(name="format", kind="format", settings={"pattern": "[0-9]+"}, on_fail=0.0)


def card(**bounds):
    return PreflightCard(
        experiment="e",
        model=ModelCard(base="b", path="p", revision="r", adapter=AdapterCard()),
        conditions=(),
        completions=8,
        zero_signal_below=bounds.get("zero_signal", 0.6),
        truncated_below=bounds.get("truncated", 0.3),
        device="cpu",
        versions={},
        code_hash="c",
    )


def condition(reward, null_control=False):
    data = DataCard(path="d", sha256="0")
    sampling = {"num_generations": 2, "max_completion_length": 24, "temperature": 1.0, "top_p": 1.0}
    return PreflightCondition(name="c", null_control=null_control, reward=reward, data=data, **sampling)


def judged(texts, reward=None, *, row=ROW, cut=(), null_control=False, **bounds):
    made = [(row, Sampled(text=text, tokens=3, truncated=place in cut)) for place, text in enumerate(texts)]
    return _judge(card(**bounds), condition(reward or RewardCard(name="r", gates=(FORMAT, EXACT)), null_control), made)


def test_a_reward_with_signal_passes_and_its_numbers_are_counts():
    result, rows = judged(["1", "x", "2", "1"])
    assert (result.verdict, result.reasons) == ("pass", ())
    assert (result.completions, result.groups, result.zero_signal_groups, result.unknown) == (4, 2, 0, 0)
    assert result.reward_mean == 0.5 and result.atoms == (Atom(reward=1.0, completions=2), Atom(reward=0.0, completions=2))
    shares = {found.gate: (found.reached, found.passed, found.failed, found.unknown) for found in result.funnel}
    assert shares == {"format": (4, 3, 1, 0), "answer": (3, 2, 1, 0)}
    assert [(row["step"], row["group"], row["reward"]) for row in rows] == [(0, 0, 1.0), (0, 0, 0.0), (0, 1, 0.0), (0, 1, 1.0)]


@pytest.mark.parametrize(
    ("texts", "changes", "part"),
    [
        (["1", "1", "2", "2"], {}, "2 of 2 groups carry no signal (100%, declared below 60%)"),
        (["1", "x", "2", "1"], {"cut": (1, 2)}, "2 of 4 completions are cut at 24 tokens (50%, declared below 30%)"),
        (["1", "x", "2", "1"], {"row": {"id": "a", "prompt": "p"}}, "3 of 4 rewards are unknown (limit 5%)"),
    ],
)
def test_a_reward_that_cannot_teach_is_refused_with_the_numbers(texts, changes, part):
    result, _ = judged(texts, **changes)
    assert result.verdict == "refuse" and any(part in reason for reason in result.reasons)


def test_exactly_at_the_bound_is_not_below_it():
    assert judged(["1", "x", "2", "2"], zero_signal=0.5)[0].verdict == "refuse"
    assert judged(["1", "x", "2", "2"], zero_signal=0.51)[0].verdict == "pass"


def test_a_failing_example_refuses_even_a_null_control():
    example = ExampleCard(completion="2", row=ROW, expect=1.0)
    reward = RewardCard(name="r", gates=(FORMAT, EXACT), examples=(example,))
    result, _ = judged(["1", "x"], reward, null_control=True)
    assert result.verdict == "refuse" and "The reward example '2' scores 0.0, expected 1.0" in result.reasons[0]


def test_a_null_control_has_no_signal_and_may_train():
    zero = RewardCard(name="zero", gates=(GateCard(name="zero", kind="constant", settings={"score": 0.0}),))
    result, _ = judged(["1", "2", "3", "4"], zero, null_control=True)
    assert (result.verdict, result.zero_signal_groups, result.groups) == ("pass", 2, 2)


def test_an_atom_that_is_neither_the_lowest_nor_the_highest_warns():
    partial = RewardCard(name="r", gates=(FORMAT.model_copy(update={"on_fail": 0.21}), EXACT))
    result, _ = judged(["1", "x", "x", "1"], partial)
    assert result.verdict == "warn" and "2 of 4 completions hold exactly the reward 0.21" in result.reasons[0]
