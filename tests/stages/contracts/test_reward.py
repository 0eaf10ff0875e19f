"""Penalties on cards."""

import pytest
from pydantic import ValidationError

from stages.contracts.reward import Penalty

RUNAWAY = {"all": [{"signal": "truncated", "holds": True}, {"gate": "structure", "mark": "end_marker", "holds": False}]}


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
