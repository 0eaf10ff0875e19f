"""Scores made of other scores: three values, one judgement a completion."""

from stages.contracts.expressions import AllOf, Signal, Status
from stages.contracts.plugin import Answer, Judgement
from stages.train.evaluate import combined_score

LOOKS_RIGHT = AllOf(all=(Status(gate="format", status="pass"), Status(gate="verify", status="pass", holds=False)))
PASS, FAIL, UNKNOWN = Judgement("pass", 1.0), Judgement("fail", 0.0), Judgement("unknown", None, "no answer")


def said(format: list[Judgement], verify: list[Judgement]) -> list[tuple[str, float | None]]:
    answers = [Answer(text="by simp", row={}) for _ in format]
    found = combined_score(LOOKS_RIGHT, answers, {"format": format, "verify": verify})
    return [(one.status, one.score) for one in found]


def test_looks_right_and_does_not_verify():
    assert said([PASS, PASS, FAIL, FAIL], [FAIL, PASS, FAIL, PASS]) == [("pass", 1.0), ("fail", 0.0), ("fail", 0.0), ("fail", 0.0)]


def test_what_hangs_on_an_unknown_is_unknown_and_what_does_not_is_known():
    assert said([PASS, FAIL, UNKNOWN, UNKNOWN], [UNKNOWN, UNKNOWN, FAIL, PASS]) == [
        ("unknown", None),
        ("fail", 0.0),
        ("unknown", None),
        ("fail", 0.0),
    ]


def test_signals_of_the_completion_count_too():
    cut = AllOf(all=(Signal(signal="truncated"), Status(gate="format", status="pass")))
    answers = [Answer(text="x", row={}, truncated=True), Answer(text="x", row={})]
    assert [one.status for one in combined_score(cut, answers, {"format": [PASS, PASS]})] == ["pass", "fail"]
