"""Gate `length`, and the formulas it reads: right values on both sides, and nothing but arithmetic."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.contracts.plugin import Answer
from stages.contracts.reward import Example, Gate, Reward
from stages.train.rewards.compose import check_examples
from stages.train.rewards.length import MOST_CHARS, Settings, judge, parse_formula

SEED_3 = {"formula": "2 - words/16", "low": -2.0, "high": 2.0}


def judged(text, **settings):
    (judgement,) = judge(Settings(**settings), [Answer(text, {})])
    return judgement.status, judgement.score


def test_bounds_on_both_sides():
    assert judged("one two", min_words=2, max_words=2) == ("pass", 1.0)
    assert judged("one", min_words=2) == ("fail", 0.0)
    assert judged("one two three", max_words=2) == ("fail", 0.0)
    assert judged("ab\u00e9", min_chars=3, max_chars=3) == ("pass", 1.0)
    assert judged("ab", min_chars=3) == ("fail", 0.0)
    assert judged("abcd", max_chars=3) == ("fail", 0.0)
    assert judged("a\u2003b\n c", max_words=3, min_words=3) == ("pass", 1.0)
    assert judged("", max_words=0) == ("pass", 1.0)


@pytest.mark.parametrize(("words", "score"), [(0, 1.0), (16, 0.75), (32, 0.5), (48, 0.25), (63, 0.015625), (64, 0.0), (80, 0.0)])
def test_seed_3_by_hand(words, score):
    """2 - words/16 on its way from -2 to 2: the empty answer is the best one, which examples and preflight must show."""
    assert judged("w " * words, **SEED_3) == ("pass" if score else "fail", score)


def test_the_range_clips_and_says_the_value():
    (judgement,) = judge(Settings(formula="2 - words/16", low=0.0, high=1.0), [Answer("w", {})])
    assert (judgement.score, judgement.reason) == (1.0, "1 words, 1 characters: the formula gives 1.9375")
    assert judged("w " * 40, formula="2 - words/16", low=0.0, high=1.0) == ("fail", 0.0)


@pytest.mark.parametrize(
    ("text", "formula"), [("", "1/words"), ("x", "1/(words - words)"), ("x", "1e308*10*words - 1e308*10"), ("x", "0*(1e308*10)")]
)
def test_a_formula_without_a_value_fails(text, formula):
    assert judged(text, formula=formula, low=0.0, high=1.0) == ("fail", 0.0)


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("2 - words/16", 1.75), ("1 - 2 - 3", -4), ("8 / 4 / 2", 1), ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("-words * -2", 8),
        ("--1", 1), ("min(words, chars, 3)", 3), ("max(words, chars) / 2", 5), (".5e1 + 1. + 1e-1", 6.1), (" words\n+\tchars ", 14),
    ],
)  # fmt: skip
def test_formulas_by_hand(formula, value):
    assert parse_formula(formula)({"words": 4, "chars": 10}) == pytest.approx(value)


@pytest.mark.parametrize(
    "formula",
    [
        "", " ", "2 -", "words words", "2words", "words.real", "__import__('os')", "open(words)", "words ** 2", "words // 2",
        "1 if words else 0", "min()", "min(1,)", "min", "(1", "1)", "words[0]", "lambda: 1", "tokens", "1 << 9", "1;2", "nan", "inf",
        "0x10", "1_0", "\u0661", "w\u00f6rds",
        "1" * (MOST_CHARS + 1),
    ],
)  # fmt: skip
def test_all_else_is_refused(formula):
    with pytest.raises(ValueError):
        parse_formula(formula)


def test_refusals_say_where():
    for formula, message in [
        ("2 - tokens", "column 5: 'tokens' is no part of a formula, which has .* words, chars, min, max"),
        ("2 $ 3", "column 3: '[$]'"),
    ]:
        with pytest.raises(ValueError, match=message):
            parse_formula(formula)


@given(st.text(alphabet="words chars()+-*/.,0123456789emin", max_size=MOST_CHARS))
def test_any_text_is_a_formula_or_a_value_error(text):
    try:
        formula = parse_formula(text)
    except ValueError:
        return
    with contextlib.suppress(ZeroDivisionError):
        assert isinstance(formula({"words": 3, "chars": 17}), float)


def test_the_deepest_formula_is_no_recursion_error():
    assert parse_formula("(" * 99 + "1" + ")" * 99)({}) == 1
    assert parse_formula("-" * 199 + "1")({}) == -1


SIDES = st.sampled_from(["+", "-", "*", "/"])


@given(
    st.recursive(
        st.integers(0, 9).map(str) | st.just("words"), lambda inner: st.builds("({}{}{})".format, inner, SIDES, inner), max_leaves=12
    )
)
def test_formulas_mean_what_python_means(text):
    try:
        right = eval(text, {"__builtins__": {}, "words": 7.0})
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            parse_formula(text)({"words": 7.0})
    else:
        assert parse_formula(text)({"words": 7.0}) == right


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"min_words": 3, "max_words": 2}, {"min_chars": 3, "max_chars": 2}, {"min_words": -1}, {"formula": "words"},
        {"formula": "words", "low": 0.0}, {"formula": "words", "low": 1.0, "high": 1.0}, {"formula": "words", "low": 2.0, "high": 1.0},
        {"formula": "words", "low": 0.0, "high": float("inf")}, {"formula": "words", "low": 0.0, "high": 1.0, "max_words": 3},
        {"formula": "tokens", "low": 0.0, "high": 1.0}, {"max_words": 3, "low": 0.0},
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(settings):
    with pytest.raises(ValidationError):
        Settings(**settings)


@pytest.mark.parametrize(("tokens", "status"), [(None, "unknown"), (2, "fail"), (3, "pass"), (5, "pass"), (6, "fail")])
def test_bounds_in_tokens(tokens, status):
    (judgement,) = judge(Settings(min_tokens=3, max_tokens=5), [Answer("a text", {}, tokens=tokens)])
    assert (judgement.status, judgement.score) == (status, {"pass": 1.0, "fail": 0.0, "unknown": None}[status])


def test_an_example_says_its_tokens():
    gate = Gate(name="brief", kind="length", settings={"max_tokens": 5})
    examples = tuple(Example(completion="x", row={}, expect=1.0, tokens=tokens) for tokens in (4, 6, None))
    outcomes = check_examples(Reward(name="r", gates=(gate,), examples=examples))
    assert [outcome.got for outcome in outcomes] == [1.0, 0.0, None]
    assert "an example says it with `tokens`" in outcomes[2].why


def test_settings_without_bounds_in_tokens_keep_the_bytes_of_their_cards():
    assert set(Settings(max_words=5).model_dump(mode="json")) == {
        *("min_words", "max_words", "min_chars", "max_chars", "formula", "low", "high")
    }
    assert Settings(max_tokens=5).model_dump(mode="json")["max_tokens"] == 5
    with pytest.raises(ValidationError, match="min_tokens is 6, above max_tokens"):
        Settings(min_tokens=6, max_tokens=5)
