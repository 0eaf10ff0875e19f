"""constant, random, exact_match, format: right values on both sides, and what each does not know."""

import hashlib
import math
import time

import pytest
from pydantic import ValidationError

from stages.contracts import patterns
from stages.contracts.plugin import GATES, Answer, Judgement, kinds, load
from stages.train.rewards import constant, exact_match, format, random


@pytest.mark.parametrize("kind", kinds(GATES))
def test_every_field_is_described_and_closed(kind):
    settings = load(GATES, kind).Settings
    assert settings.model_config["frozen"] and settings.model_config["extra"] == "forbid"
    for name, field in settings.model_fields.items():
        assert field.description, name


def test_constant():
    assert constant.judge(constant.Settings(score=0.0), [Answer("a", {}), Answer("", {})]) == [Judgement("pass", 0.0)] * 2
    assert constant.judge(constant.Settings(score=0.25), [Answer("a", {})]) == [Judgement("pass", 0.25)]
    with pytest.raises(ValidationError):
        constant.Settings(score=1.5)
    with pytest.raises(ValidationError):
        constant.Settings(score=math.nan)


def test_random_draw_is_a_function_of_the_key_alone():
    expected = (int(hashlib.sha256(b"octavo.random\0step-1").hexdigest()[:16], 16) >> 11) / 2**53
    assert random.draw("step-1") == expected
    assert 0 <= random.draw("\ud800\0") < 1
    settings = random.Settings(distribution="uniform")
    answers = [Answer(str(number), {}, key=f"k{number}") for number in range(8)]
    forward = random.judge(settings, answers)
    assert random.judge(settings, answers[::-1]) == forward[::-1]
    assert [judgement.status for judgement in forward] == ["pass"] * 8
    assert len({judgement.score for judgement in forward}) == 8


def test_random_bernoulli_share_and_edges():
    answers = [Answer("", {}, key=f"k{number}") for number in range(4000)]
    scores = [judgement.score for judgement in random.judge(random.Settings(p=0.3), answers)]
    assert set(scores) == {0.0, 1.0}
    assert abs(sum(scores) / 4000 - 0.3) < 0.03  # four standard errors
    assert {judgement.score for judgement in random.judge(random.Settings(p=0.0), answers)} == {0.0}
    assert {judgement.status for judgement in random.judge(random.Settings(p=1.0), answers)} == {"pass"}


@pytest.mark.parametrize(
    ("text", "row", "strip", "status"),
    [
        ("x*2", {"answer": "x*2"}, True, "pass"), (" x*2\n", {"answer": "x*2"}, True, "pass"),
        (" x*2\n", {"answer": "x*2"}, False, "fail"), ("x*3", {"answer": "x*2"}, True, "fail"), ("", {"answer": "x"}, True, "fail"),
        ("x", {}, True, "unknown"), ("1", {"answer": 1}, True, "unknown"), ("None", {"answer": None}, True, "unknown"),
    ],
)  # fmt: skip
def test_exact_match(text, row, strip, status):
    (judgement,) = exact_match.judge(exact_match.Settings(column="answer", strip=strip), [Answer(text, row)])
    assert judgement.status == status
    assert judgement.score == {"pass": 1.0, "fail": 0.0, "unknown": None}[status]
    assert (judgement.reason == "") == (status == "pass")


@pytest.mark.parametrize(
    ("rules", "text", "status", "reason"),
    [
        ({"pattern": "[-+*()x0-9 ]+"}, "(x*2)+3", "pass", ""),
        ({"pattern": "[-+*()x0-9 ]+"}, "import os", "fail", "does not match the pattern"),
        ({"pattern": "[-+*()x0-9 ]+"}, "x\n", "fail", "does not match the pattern"),
        ({"pattern": "[-+*()x0-9 ]+"}, "", "fail", "does not match the pattern"),
        ({"max_chars": 3}, "abc", "pass", ""),
        ({"max_chars": 3}, "abcd", "fail", "4 characters, more than 3"),
        ({"min_chars": 2}, "a", "fail", "1 characters, fewer than 2"),
        ({"min_chars": 2}, "ab", "pass", ""),
        ({"required": ["<a>", "</a>"]}, "<a>1</a>", "pass", ""),
        ({"required": ["<a>", "</a>"]}, "<a>1", "fail", "the part '</a>' is missing"),
        ({"forbidden": ["sorry"]}, "by simp", "pass", ""),
        ({"forbidden": ["admit", "sorry"], "min_chars": 2}, "by sorry", "fail", "holds the part 'sorry'"),
        ({"pattern": "(a|aa)+(b|c)"}, "a" * 60, "unknown", "the pattern took more than 0.2 s"),
    ],
)
def test_format(rules, text, status, reason, monkeypatch):
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.2)
    (judgement,) = format.judge(format.Settings(**rules), [Answer(text, {})])
    assert (judgement.status, judgement.reason) == (status, reason)
    assert judgement.score == {"pass": 1.0, "fail": 0.0, "unknown": None}[status]


@pytest.mark.parametrize("rules", [{}, {"pattern": "("}, {"min_chars": 5, "max_chars": 4}, {"min_chars": -1}, {"patern": "a"}])
def test_format_settings_that_make_no_sense(rules):
    with pytest.raises(ValidationError):
        format.Settings(**rules)


@pytest.mark.parametrize(
    "pattern", ["(" * 2000 + "a" + ")" * 2000, "((((a{1000}){1000}){1000}){1000})", "(?#[)((a{1000}){1000}){1000}", "a" * 100_000]
)
def test_a_pattern_that_would_fill_the_memory_is_refused(pattern):
    begun = time.process_time()
    with pytest.raises(ValidationError, match=r"nested too deep|too much memory"):
        format.Settings(pattern=pattern)
    assert time.process_time() - begun < 60
