"""Degenerate answers: which texts are tried, when one of them is the best answer, and what its author may say about it."""

import pytest

from stages.contracts.reward import Example, Gate, Reward, Scale
from stages.train.reasons import highest, is_declared, probes, texts

ROWS = [{"id": "a", "answer": "x"}, {"id": "b", "answer": "y"}]
BRIEF = Gate(name="brief", kind="length", settings={"max_words": 5})
EXACT = Gate(name="exact", kind="exact_match", settings={"column": "answer"})
WORDS = Gate(name="words", kind="length", settings={"formula": "1 - words/16", "low": 0, "high": 1})


def best(card, rows=ROWS):
    return [probe.name for probe in probes(card, rows) if probe.best]


def reward(*gates, **changes):
    return Reward(name="r", gates=gates, **changes)


def example(text, expect):
    return Example(completion=text, row=ROWS[0], expect=expect)


def test_what_is_tried():
    structure = Gate(name="structure", kind="ocaml_structure", settings={"end_marker": "(* END *)", "required": ["let", "in"]})
    tried = texts(reward(structure))
    assert list(tried) == ["empty", "one word", "repeated", "end marker only", "required parts only"]
    assert tried["end marker only"] == "(* END *)" and tried["required parts only"] == "let\nin"
    assert list(texts(reward(EXACT))) == ["empty", "one word", "repeated"]


def test_a_bound_from_above_alone_pays_for_nothing():
    assert best(reward(BRIEF)) == ["empty", "one word"]
    assert best(reward(BRIEF.model_copy(update={"settings": {"min_words": 2, "max_words": 5}}))) == []


def test_a_text_must_be_best_on_every_row():
    assert best(reward(EXACT), ROWS[:1]) == ["one word"]
    assert best(reward(EXACT)) == []


def test_the_examples_say_what_the_best_answer_earns():
    assert best(reward(WORDS)) == ["empty"]
    paid = (example("a b c d", 0.75),)
    assert best(reward(WORDS, examples=paid)) == ["empty", "one word"], "more than the author's own good answer"
    assert best(reward(WORDS, examples=(*paid, example("", 1.0)))) == ["empty"]
    declared = reward(WORDS, examples=(*paid, example(" ", 1.0)))
    assert [is_declared(declared, probe) for probe in probes(declared, ROWS)] == [True, False, False]


def test_a_reward_that_pays_nothing_has_no_best_answer():
    zero = Gate(name="zero", kind="constant", settings={"score": 0.0})
    assert best(reward(zero, examples=(example("x", 0.0),))) == []


def test_scale_and_cap_move_what_the_best_answer_earns():
    scaled = reward(WORDS, scale=Scale(low=1.0, high=2.0))
    assert (highest(scaled), highest(reward(WORDS, cap=0.5)), highest(reward(WORDS))) == (2.0, 0.5, 1.0)
    assert [probe.reward for probe in probes(scaled, ROWS)] == [2.0, pytest.approx(1 + 15 / 16), 1.0]
    assert best(scaled) == ["empty"]


def test_an_inversion_is_left_out():
    assert [probe.reward for probe in probes(reward(BRIEF, invert=True), ROWS)] == [1.0, 1.0, 0.0]


def test_a_gate_that_does_not_know_is_no_optimum():
    nowhere = Gate(name="exact", kind="exact_match", settings={"column": "gone"})
    assert [(probe.reward, probe.best) for probe in probes(reward(nowhere), ROWS)] == [(None, False)] * 3
