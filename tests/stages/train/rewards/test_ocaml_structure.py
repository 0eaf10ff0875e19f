"""Gate `ocaml_structure`: lines of code are code, and the end marker ends the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.contracts.plugin import Answer
from stages.train.rewards.ocaml_structure import Settings, code, judge

EIGHT = "\n".join(f"let x{number} = {number}" for number in range(8))


def judged(text, **settings):
    (judgement,) = judge(Settings(**settings), [Answer(text, {})])
    return judgement


@pytest.mark.parametrize("end", ["\n(* END *)", "\n(* END *)\n", "(* END *)  \n\n"])
def test_a_whole_answer(end):
    judgement = judged(EIGHT + end, min_code_lines=8)
    assert (judgement.status, judgement.score, judgement.marks) == ("pass", 1.0, {"end_marker": True, "enough_lines": True})


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("", "is missing"), ("\n(* end *)", "is missing"), ("\n(*END*)", "is missing"),
        ("\n(* END *)\nlet more = 1", "is not at the end"), ("\n(* END *) x", "is not at the end"),
        ("\n(* END *)\n" + "la " * 50, "is not at the end"),
    ],
)  # fmt: skip
def test_the_end_marker_ends_the_answer(end, reason):
    judgement = judged(EIGHT + end)
    assert (judgement.status, judgement.score, judgement.marks) == ("fail", 0.0, {"end_marker": False, "enough_lines": True})
    assert judgement.reason == f"the end marker {reason}"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (EIGHT, 8), ("", 0), ("\n\n \t\n", 0), ("(* one\ntwo\nthree *)", 0), ("(* one (* two *)\nthree *)\nlet x = 1", 1),
        ("(* one (* two *)\nlet x = 1\nlet y = 1", 0), ('(* a text "*)" in a comment\nlet x = 1 *)\nlet y = 1', 1),
        ('let s = "one\ntwo\nthree"', 1), ('let s = "one (* no comment"\nlet y = 1', 2), ('let s = "one \\" (* two"\nlet y = 1', 2),
        ('let s = {|one\ntwo (* " three|}\nlet y = 1', 2), ("let s = {id|one\n|} two\n|id}\nlet y = 1", 2),
        ("let c = '\"'\nlet y = 1 (* \" *)\n", 2), ("let c = '\\''\nlet d = '\"'\nlet y = 1", 3),
        ("let x' = 1 let y'' = x' (* ' *)\nlet z = \"\"", 2), (";;\n;;\n|\n(\n)\n->", 0), ("let f x =\n(\nx\n)\n;;", 2),
        ("let x = 1\r\n\r\nlet y = 2\r\n", 2), ("let x = 1\x0clet y = 2\u2028let z = 3\x85let w = 4", 1),
        ("let x = 1 (* one *) (*\n*) let y = 2\n(* three *)", 2), ('let s = "open\nlet y = 1', 1), ("let s = {|open\nlet y = 1", 1),
    ],
)  # fmt: skip
def test_lines_of_code(text, lines):
    if lines:
        assert judged(text, end_marker=None, min_code_lines=lines).status == "pass"
    judgement = judged(text, end_marker=None, min_code_lines=lines + 1)
    assert (judgement.status, judgement.reason) == ("fail", f"{lines} lines of code, fewer than {lines + 1}")


def test_required_parts_are_code():
    assert judged("x", min_code_lines=8).marks == {"end_marker": False, "enough_lines": False}
    assert judged("x\n(* END *)", min_code_lines=8).marks == {"end_marker": True, "enough_lines": False}
    rule = {"end_marker": None, "required": ("let rec", "List.")}
    assert judged("let rec f x = List.map f x", **rule).status == "pass"
    assert judged("let rec f x = x (* List. *)", **rule).reason == "the part 'List.' is missing"
    assert judged('let f x = List.map "let rec" x', **rule).status == "fail"


@pytest.mark.parametrize(
    "settings", [{"end_marker": ""}, {"min_code_lines": -1}, {"required": ("",)}, {"end_marker": None, "min_code_lines": 0}]
)
def test_settings_that_cannot_work_are_refused(settings):
    with pytest.raises(ValidationError):
        Settings(**settings)


@given(st.lists(st.sampled_from(["(*", "*)", '"', "'", "\\", "{|", "|}", "{a|", "|a}", "x", "\n", " ", "é"])).map("".join))
def test_blanking_keeps_length_and_lines_and_adds_nothing(text):
    bare = code(text)
    assert len(bare) == len(text)
    assert all(new == old or (new == " " and old != "\n") for new, old in zip(bare, text, strict=True))


def test_long_hostile_texts_are_fast():
    for piece in ("(*", "{a|", '"', "'", "{", "x'", '"\\'):
        assert judged(piece * 50_000, end_marker=None).status in ("pass", "fail")
