from stages.contracts.reward import Gate, Penalty, Phase, Reward
from stages.publish.rewards import after, decides


def gate(name, **rest):
    return Gate(name=name, kind="constant", settings={}, **rest)


def test_what_a_gate_of_a_weighted_reward_decides():
    reward = Reward(name="r", combine="weighted", gates=(gate("types", weight=0.2), gate("tests", weight=0.8, needs="types")))
    assert [decides(reward, one) for one in reward.gates] == ["20% of the reward", "80% of the reward; asked only where types passed"]
    phased = reward.model_copy(update={"curriculum": (Phase(**{"from": 0.5}, weights={"types": 0.5, "tests": 0.5}),)})
    assert decides(phased, phased.gates[0]) == "20% of the reward at first"
    assert list(after(phased)) == ["From 50% of training on: types 50%, tests 50%."]


def test_what_a_gate_of_a_chain_decides():
    reward = Reward(name="r", gates=(gate("format", on_fail=0.0), gate("tests")))
    assert decides(reward, reward.gates[0]) == "fail gives 0; otherwise the next gate is asked"
    assert decides(reward, reward.gates[1]) == "otherwise its own score is the reward"


def test_penalties_read_as_specs_write_them():
    leaf = {"gate": "structure", "mark": "end_marker", "holds": False}
    runaway = {"name": "runaway", "when": {"all": [{"signal": "truncated"}, leaf]}, "set": 0}
    both = {"any": [{"signal": "empty", "holds": False}, {"all": [{"gate": "tests", "status": "fail"}, leaf]}]}
    short = {"name": "short", "when": both, "factor": 0.5}
    penalties = tuple(Penalty.model_validate(one) for one in (runaway, short))
    reward = Reward(name="r", gates=(gate("tests"),), penalties=penalties, cap=0.9)
    assert list(after(reward)) == [
        "Penalty runaway: where truncated and not structure.end_marker, the reward becomes 0.",
        "Penalty short: where not empty or tests.fail and not structure.end_marker, the reward is multiplied by 0.5.",
        "No reward is above 0.9.",
    ]
