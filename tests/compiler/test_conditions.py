"""Conditions of penalties: what they mean is held against Python's own reading of the same words."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.language.expressions import MAX_CHARS, Unreadable
from compiler.language.expressions import reward_condition as condition
from stages.contracts.expressions import AllOf, AnyOf, Signal, Status
from stages.contracts.plugin import Answer, Judgement
from stages.train.rewards.compose import holds

KINDS = {"format": "format", "tests": "python_tests"}
WORDS = ["truncated", "empty", "format.pass", "format.fail", "format.not_reached", "tests.pass", "tests.fail", "tests.not_reached"]
TEXTS = st.recursive(
    st.sampled_from(WORDS),
    lambda inner: st.one_of(
        inner.map(lambda text: f"not {text}" if " " not in text or text.startswith("(") else f"not ({text})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
    ),
    max_leaves=8,
)


def judgement(status: str) -> Judgement | None:
    return None if status == "not_reached" else Judgement("pass" if status == "pass" else "fail", 1.0)


@given(TEXTS)
def test_conditions_mean_what_they_say(text):
    try:
        parsed = condition(text, KINDS)
    except Unreadable as error:
        assert len(text) > MAX_CHARS or "deep" in error.problem.what
        return
    for truncated, empty, first, second in product(
        [True, False], [True, False], ["pass", "fail", "not_reached"], ["pass", "fail", "not_reached"]
    ):
        names = {"truncated": truncated, "empty": empty}
        names |= {f"format_{status}": first == status for status in ("pass", "fail", "not_reached")}
        names |= {f"tests_{status}": second == status for status in ("pass", "fail", "not_reached")}
        expected = eval(re.sub(r"\.", "_", text), {}, names)
        answer = Answer("" if empty else "x", {}, truncated=truncated)
        assert holds(parsed, answer, {"format": judgement(first), "tests": judgement(second)}) is expected


def test_the_example_of_the_contract():
    parsed = condition("truncated and not tests.pass", KINDS)
    assert parsed == AllOf(all=(Signal(signal="truncated"), Status(gate="tests", status="pass", holds=False)))
    assert condition("not (truncated and not tests.pass)", KINDS) == AnyOf(
        any=(Signal(signal="truncated", holds=False), Status(gate="tests", status="pass"))
    )


@given(st.text(max_size=60) | st.lists(st.sampled_from([*WORDS, "and", "or", "not", "(", ")", "x.y", "&"]), max_size=60).map(" ".join))
def test_any_text_is_read_or_refused_at_a_place_inside_it(text):
    try:
        condition(text, KINDS)
    except Unreadable as error:
        assert error.problem.code in ("E350", "E351")
        assert 0 <= error.start <= len(text) and error.length >= 1


@pytest.mark.parametrize("text", ["(" * 400, "not " * 120, "(" * 200 + ")" * 200, "empty " * 90, "x" * 100_000])
def test_depth_and_length_are_refused_before_anything_recurses(text):
    with pytest.raises(Unreadable):
        condition(text, KINDS)
