"""Cards of rewards: what came later leaves old cards as they were, and every shape survives a round trip."""

import json

import pytest
from pydantic import ValidationError

from stages.contracts.reward_card import GateCard, PenaltyCard, RewardCard

OLD_GATE = {"name": "g", "kind": "format", "settings": {"min_chars": 1}, "on_pass": None, "on_fail": 0.0}
OLD = {"name": "r", "combine": "first_decides", "gates": [OLD_GATE], "invert": False, "examples": [], "unknown": {"limit": 0.05}}
RUNAWAY = {"all": [{"signal": "truncated", "holds": True}, {"gate": "structure", "mark": "end_marker", "holds": False}]}
FULL = {
    "name": "r",
    "combine": "weighted",
    "gates": [
        {"name": "structure", "kind": "format", "settings": {}, "on_pass": None, "on_fail": None, "weight": 0.25},
        {"name": "tests", "kind": "format", "settings": {}, "on_pass": None, "on_fail": None, "weight": 0.75, "needs": "structure"},
    ],
    "invert": False,
    "examples": [],
    "unknown": {"limit": 0.05},
    "penalties": [
        {"name": "runaway", "when": RUNAWAY, "set": 0.0, "factor": None},
        {
            "name": "late",
            "when": {"any": [{"gate": "tests", "status": "not_reached", "holds": True}, {"all": [{"signal": "empty", "holds": False}]}]},
            "set": None,
            "factor": 0.5,
        },
    ],
    "curriculum": [{"from": 0.5, "weights": {"structure": 0.1, "tests": 0.9}}],
    "cap": 0.0,
}


def test_a_card_without_later_fields_is_dumped_as_before():
    assert RewardCard.model_validate(OLD).model_dump(mode="json") == OLD
    assert json.loads(RewardCard.model_validate(OLD).model_dump_json()) == OLD
    assert list(RewardCard.model_validate(OLD).model_dump()) == ["name", "combine", "gates", "invert", "examples", "unknown_limit"]


def test_later_fields_survive_a_round_trip():
    card = RewardCard.model_validate(FULL)
    assert card.model_dump(mode="json") == FULL
    assert RewardCard.model_validate(card.model_dump(mode="json")) == card


def test_a_weight_of_zero_and_a_cap_of_zero_are_set():
    assert GateCard(name="g", kind="k", settings={}, weight=0.0).model_dump()["weight"] == 0.0
    assert RewardCard.model_validate(OLD | {"cap": 0}).model_dump()["cap"] == 0.0


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
    PenaltyCard.model_validate({"name": "p", "when": RUNAWAY, "set": 0.0})
    with pytest.raises(ValidationError):
        PenaltyCard.model_validate({"name": "p", "when": RUNAWAY, "set": 0.0} | change)
