"""Findings and health files of earlier versions are read, and what they do not say is not written."""

from __future__ import annotations

from stages.contracts.finding import Finding
from stages.contracts.health import GateResult


def test_a_finding_without_later_fields_is_read_and_written_as_it_was() -> None:
    old = Finding(id="a/b/final", says="", subject="a", metric="b", statistic="final", unit="", value=1.0).model_dump(mode="json")
    assert not {"equal_seeds", "detectable", "without_gate"} & set(old)
    read = Finding.model_validate(old)
    assert read.equal_seeds is False and read.model_dump(mode="json") == old
    assert read.model_copy(update={"equal_seeds": True}).model_dump(mode="json") == {**old, "equal_seeds": True}


def test_a_gate_that_does_not_say_whether_it_is_alone_is_not() -> None:
    old = {"gate": "steps", "rule": "all 20 steps done", "passed": False, "says": "7 of 20 steps done"}
    read = GateResult.model_validate(old)
    assert read.alone is False and read.model_dump(mode="json") == old
