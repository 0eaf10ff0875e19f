"""Cards of rewards: every shape survives a round trip."""

import pytest
from pydantic import ValidationError

from stages.contracts.reward import Penalty, Reward

RUNAWAY = {"all": [{"signal": "truncated", "holds": True}, {"gate": "structure", "mark": "end_marker", "holds": False}]}
FULL = {
    "name": "r",
    "combine": "weighted",
    "gates": [
        {"name": "structure", "kind": "format", "settings": {}, "weight": 0.25},
        {"name": "tests", "kind": "format", "settings": {}, "weight": 0.75, "needs": "structure"},
    ],
    "invert": False,
    "unknown": {"limit": 0.05},
    "penalties": [
        {"name": "runaway", "when": RUNAWAY, "set": 0.0},
        {
            "name": "late",
            "when": {"any": [{"gate": "tests", "status": "not_reached", "holds": True}, {"all": [{"signal": "empty", "holds": False}]}]},
            "factor": 0.5,
        },
    ],
    "curriculum": [{"from": 0.5, "weights": {"structure": 0.1, "tests": 0.9}}],
    "cap": 0.5,
}


def test_later_fields_survive_a_round_trip():
    card = Reward.model_validate(FULL)
    assert card.model_dump(mode="json", by_alias=True) == FULL
    assert Reward.model_validate(card.model_dump(mode="json", by_alias=True)) == card


@pytest.mark.parametrize(
    "change",
    [
        {"set": None, "factor": None},
        {"set": 0.0, "factor": 0.5},
        {"set": 1.5},
        {"factor": -1.0, "set": None},
        {"when": {"all": []}},
        {"when": {"signal": "late"}},
        {"when": {"signal": "truncated", "gate": "structure"}},
        {"when": {"gate": "structure", "status": "unknown"}},
        {"when": "truncated and not structure.end_marker"},
    ],
)
def test_penalties_are_closed(change):
    Penalty.model_validate({"name": "p", "when": RUNAWAY, "set": 0.0})
    with pytest.raises(ValidationError):
        Penalty.model_validate({"name": "p", "when": RUNAWAY, "set": 0.0} | change)
