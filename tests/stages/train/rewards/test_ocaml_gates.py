"""The OCaml gates on both sides: right, wrong, ill-typed, unparsable, hanging and cheating answers, and the seed's bugs as failures."""

import os
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.contracts.plugin import Answer
from stages.contracts.reward import Gate, Penalty, Reward
from stages.train.rewards import ocaml_compile, ocaml_tests, ocaml_types
from stages.train.rewards.compose import compose, sandbox

if shutil.which("ocamlc") is None and os.environ.get("CI") != "true":
    pytest.skip("OCaml is not installed (apt-get install ocaml-nox)", allow_module_level=True)

TESTS = "let () =\n  assert (f 1 = 2);\n  assert (f 2 = 3);\n  assert (f 3 = 4);\n  assert (f 4 = 5);;"


def types(text, row=None, **changes):
    (judgement,) = ocaml_types.judge(ocaml_types.Settings(**changes), [Answer(text, row or {})])
    return judgement


def compiles(text, row=None, **changes):
    (judgement,) = ocaml_compile.judge(ocaml_compile.Settings(**changes), [Answer(text, row or {})])
    return judgement


def run(text, tests=TESTS, **changes):
    row = {"tests": tests, "head": "let f (x : int) : int ="}
    (judgement,) = ocaml_tests.judge(ocaml_tests.Settings(**changes), [Answer(text, row)])
    return judgement


# ---- types


@pytest.mark.parametrize(
    ("text", "score", "errors"),
    [
        ("let f x = x + 1", 1.0, 0), ("let f x = x + 1 (* END *)", 1.0, 0), ('let f x = x + "1"', 0.75, 1),
        ('let f x = x + "1"\nlet g y = f y + 1', 0.75, 1), ('let f x = x + "1"\nlet v = f\nlet h = 1 ^ v', 0.5, 2),
        ("let a = 1 + true\nlet b = not 1\nlet c = 1 :: 2\nlet g = a + b + c", 0.25, 3),
        ("let a = 1 + true\nlet b = not 1\nlet c = 1 :: 2\nlet d = d", 0.0, 4),
        ("type t = A | B\nlet f = function A -> 1 | C -> 2\nlet g = f A", 0.75, 1), ("let (a, b) = 1\nlet c = a + b", 0.75, 1),
        ("let f x = List.length x + Unix.getpid ()", 0.75, 1), ("let f x = Obj.magic x", 0.75, 1),
        ("let f x = Stdlib.Obj.magic x + Marshal.x", 0.75, 1),
    ],
)  # fmt: skip
def test_errors_are_counted_item_by_item(text, score, errors):
    judgement = types(text)
    assert (judgement.status, judgement.score) == ("fail" if errors else "pass", score)
    assert judgement.marks == {"parses": True}
    assert not errors or judgement.reason.startswith(f"{errors} item")


@pytest.mark.parametrize(
    "text",
    [
        "I think the answer is to sort the list first.", "let f x = ", "let f x = (x", "let f x = x + 1)", "def f(x):\n    return x + 1",
        "```ocaml\nlet f x = x\n```", "let f x = x (* open", 'let f x = "open', '#use "/etc/passwd";;', "let f x = \x00",
        "fn f(x: i32) -> i32 { x }", "let f x = x \ud800",
    ],
)  # fmt: skip
def test_a_syntax_error_is_not_a_type_error(text):
    """Seed 2 paid 0.21 for garbage: partial credit for types and for trying to compile."""
    judgement = types(text)
    assert (judgement.status, judgement.score, judgement.marks) == ("fail", 0.0, {"parses": False})
    assert judgement.reason.startswith("does not parse: line ")
    assert (compiles(text).status, compiles(text).score) == ("fail", 0.0)
    assert (run(text).status, run(text).score) == ("fail", 0.0)


@pytest.mark.parametrize("text", ["", " \n", "(* only a comment *)", "(** Documentation. *)", ";;"])
def test_nothing_is_not_well_typed(text):
    """Else the empty answer would be the cheapest way to the credit for types and compiling."""
    for judgement in (types(text), compiles(text), run(text)):
        assert (judgement.status, judgement.score) == ("fail", 0.0)


def test_first_error_is_said_with_its_place():
    assert types('let a = 1\nlet f x = x + "1"').reason == (
        "1 item with a type error; line 2, column 15: This expression has type string but an expression was expected of type int"
    )


def test_declared_scores():
    assert types("let a = 1 + true", by_errors={0: 0.9, 2: 0.1}).score == 0.0
    assert types("let a = 1 + true\nlet b = not 1", by_errors={0: 0.9, 2: 0.1}).score == 0.1
    assert types("let a =", by_errors={0: 1.0, 1: 0.5}, syntax_error=0.25).score == 0.25
    for broken in (
        {"by_errors": {1: 0.5}},
        {"by_errors": {0: 0.5, 1: 0.6}},
        {"by_errors": {0: 1.5}},
        {"by_errors": {0: 1.0, -1: 1.0}},
        {"by_errors": {0: 1.0, 1: 0.1}, "syntax_error": 0.21},
    ):
        with pytest.raises(ValidationError):
            ocaml_types.Settings(**broken)


def test_an_answer_is_not_run_for_its_types():
    assert types("let () = while true do () done\nlet x = exit 3").score == 1.0


def test_a_type_that_explodes_is_stopped():
    bomb = "let f0 x = (x, x)\n" + "".join(f"let f{n + 1} x = f{n} (f{n} x)\n" for n in range(8))
    judgement = types(bomb, timeout=0.2)
    assert (judgement.status, judgement.score) == ("fail", 0.0) and judgement.reason.startswith("timeout")


# ---- compile


@pytest.mark.parametrize(
    "text",
    [
        "let f x = x + 1", 'let f x = x + "1"', "let r = ref []", "let r = ref [] let () = r := [1]", "let rec f = f",
        "let rec x = 1 :: x", "type t = { a : int } let f { a; b } = a",
        'module type S = sig val f : int end module M : S = struct let f = "" end',
        "class c = object method m = 1 end let x = (new c)#m", "let f = function 1 -> 2", "let x : int = [%oops]",
        'external f : int -> int = "%identity" let y = f 1', "open Nowhere", "let (let*) x f = f x let y = let* a = 1 in a",
        "exception E of int let f () = raise (E 1)", "let rec f x = g x and g x = f x", "type t = A of t' and t' = B",
        "type t = t' let x = 1", "let x = 1;; let y = x + 1;;", "let f (type a) (x : a) : a = x",
        "module F (X : sig val x : int end) = struct let y = X.x end module M = F (struct let x = 1 end)",
        "let f x = match x with | Some y when y > 0 -> y | _ -> 0", 'let l = lazy (print_string "") let () = Lazy.force l',
        'let s = Printf.sprintf "%d %s %a" 1 "" (fun () x -> x) ""',
    ],
)  # fmt: skip
def test_as_ocamlc_says(text, tmp_path):
    file = tmp_path / "answer.ml"
    file.write_text(text)
    done = subprocess.run(["ocamlc", "-w", "-a", "-c", str(file)], capture_output=True, cwd=tmp_path)
    assert (compiles(text).status == "pass") == (done.returncode == 0), done.stderr


def test_the_whole_program_may_fail_where_no_item_does():
    assert types("let r = ref []").status == "pass"
    assert compiles("let r = ref []").reason.endswith("contains type variables that cannot be generalized")


# ---- tests


@pytest.mark.parametrize(
    ("text", "share"),
    [("let f x = x + 1", 4), ("let f x = if x < 3 then x + 1 else 0", 2), ("let f _ = 5", 1), ("let f x = x", 0),
     ("let rec f x = 1 + f x", 0),
     ("let f x = if x = 2 then failwith \"no\" else x + 1", 3), ("let f x = List.nth [2; 3] (x - 1)", 2), ("let f x = float_of_int x", 0),
     ("let g x = x + 1", 0), ("let f = 3", 0)],
)  # fmt: skip
def test_cases_are_counted(text, share):
    judgement = run(text)
    assert (judgement.status, judgement.score) == ("pass" if share == 4 else "fail", share / 4)
    assert run(text, partial=False).score == (1.0 if share == 4 else 0.0)


def test_reasons():
    assert run("let f _ = 5").reason == "1 of 4 cases hold"
    assert run('let f x = if x = 2 then failwith "no" else x + 1').reason == "3 of 4 cases hold; raised Failure"
    assert "Unbound value f" in run("let g x = x").reason


def test_text_before_the_answer():
    assert run("  x + 1", before="head").status == "pass"
    assert run("let f x = x + 1", before="head").status == "fail"
    assert types("  x + 1", {"head": "let f (x : int) : int ="}, before="head").score == 1.0
    assert types("", {"head": "let f (x : int) : int ="}, before="head").score == 0.0
    assert compiles('  x ^ "1"', {"head": "let f (x : int) : int ="}, before="head").status == "fail"


@pytest.mark.parametrize("loop", ["let f x = while true do () done; x", "let rec f x = f x",
    "let () = while true do () done\nlet f x = x + 1",
    "let () = Sys.set_signal Sys.sigprof Sys.Signal_ignore\nlet rec f x = f x"])  # fmt: skip
def test_answers_that_hang_fail(loop):
    judgement = run(loop, timeout=0.1)
    assert (judgement.status, judgement.score) == ("fail", 0.0)
    assert judgement.reason.startswith("timeout")


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ("let () = assert (f 1 = ", "do not parse"), ("let () = assert (1 = 1)", "no name that an answer could define"),
        ("let () = assert (abs 1 = 1)", "no name that an answer could define"), ("let () = ignore (f 1)", "no assertion"),
        ("", "no text in column 'tests'"), (None, "no text in column 'tests'"), (["assert"], "no text in column 'tests'"),
    ],
)  # fmt: skip
def test_broken_tests_are_nobody_s_fault(tests, reason):
    judgement = run("let f x = x + 1", tests)
    assert judgement.status == "unknown" and reason in judgement.reason


def test_tests_that_no_answer_could_fit_are_broken():
    row = {"tests": 'let () = assert (f 1 = "2")', "head": "let f (x : int) : int ="}
    (judgement,) = ocaml_tests.judge(ocaml_tests.Settings(before="head"), [Answer("x + 1", row)])
    assert judgement.status == "unknown" and "do not fit the text before the answer" in judgement.reason


def test_a_function_named_like_one_of_the_library_is_the_answer_s_where_the_head_names_it():
    row = {"tests": "let () = assert (max 1 2 = 7)", "head": "let max (a : int) (b : int) : int ="}
    settings = ocaml_tests.Settings(before="head")
    assert [judgement.score for judgement in ocaml_tests.judge(settings, [Answer("7", row), Answer("a", row)])] == [1.0, 0.0]


@pytest.mark.parametrize(
    "hiding",
    [
        "let (=) _ _ = true", "let ((=), other) = ((fun _ _ -> true), 1)", "let { contents = (=) } = { contents = fun _ _ -> true }",
        "let (((=) : int -> int -> bool) as same) = fun _ _ -> true", "include struct let (=) _ _ = true end",
        "open struct let (=) _ _ = true end", "module Stdlib = struct let (=) _ _ = true end open Stdlib",
        "let rec (=) = fun _ _ -> true and g x = x",
    ],
)  # fmt: skip
def test_whatever_hides_the_library_hides_it_from_the_answer_only(hiding):
    """The library is opened again only over answers that may hide a part of it: each way to bind a name must be seen."""
    assert run(f"{hiding}\nlet f x = 0").score == 0.0
    assert run(f"{hiding}\nlet f x = x + 1").score == 1.0


def test_tests_may_use_the_answer_s_types_and_loops():
    tests = (
        "let () = assert (f Leaf = 0); for n = 1 to 3 do assert (f (Node (Leaf, n)) <= 2) done\nlet () = assert (f (Node (Leaf, 1)) = 1)"
    )
    answer = "type t = Leaf | Node of t * int\nlet f = function Leaf -> 0 | Node (_, n) -> n"
    assert run(answer, tests).score == pytest.approx(2 / 3), "a case in a loop holds when it holds every time"


def test_a_row_without_its_text_is_unknown():
    for judge, model in ((ocaml_types.judge, ocaml_types.Settings), (ocaml_compile.judge, ocaml_compile.Settings)):
        (judgement,) = judge(model(before="head"), [Answer("let f x = x", {"head": 3})])
        assert (judgement.status, judgement.reason) == (
            "unknown",
            "the data row has no text in column 'head'",
        )


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from([*"fx=+1()[];\"|{}*'\n#%", "let ", " in ", " fun ", " -> ", "\ud800", "\x00", "\u00e9"])).map("".join))
def test_any_text_is_judged(text):
    for judgement in (types(text), compiles(text), run(text)):
        assert judgement.status in ("pass", "fail") and 0 <= judgement.score <= 1


# ---- seed 2, whole


SEED_2 = Reward(
    name="syntax-aware",
    combine="weighted",
    gates=(
        Gate(name="structure", kind="ocaml_structure", settings={"min_code_lines": 3}, weight=0.05),
        Gate(name="types", kind="ocaml_types", settings={}, weight=0.20),
        Gate(name="compile", kind="ocaml_compile", settings={}, weight=0.10, needs="types"),
        Gate(name="tests", kind="ocaml_tests", settings={}, weight=0.65, needs="compile"),
    ),
    penalties=(
        Penalty.model_validate(
            {
                "name": "runaway",
                "when": {"all": [{"signal": "truncated"}, {"gate": "structure", "mark": "end_marker", "holds": False}]},
                "set": 0,
            }
        ),
    ),
)
RIGHT = "let f x =\n  let y = x in\n  y + 1"
END = "\n(* END *)"


@pytest.mark.parametrize(
    ("text", "truncated", "reward"),
    [
        (RIGHT + END, False, 1.0),
        (RIGHT, False, 0.95),
        (RIGHT, True, 0.0),
        (RIGHT + END, True, 1.0),
        ("let f x =\n  let y = x in\n  if y < 3 then y + 1 else 0" + END, False, 0.05 + 0.2 + 0.1 + 0.65 * 0.5),
        ("let f x =\n  let y = x in\n  y + \"1\"" + END, False, 0.05 + 0.2 * 0.75),
        ("let f x =\n  let y = x in\n  y + (1" + END, False, 0.05),
        ("Sorting comes first,\nthen we add one,\nand return it." + END, False, 0.05),
        ("(* Sorting comes first,\nthen we add one,\nand return it. *)" + END, False, 0.0),
        ("", False, 0.0),
        (END, False, 0.0),
        ("let rec f x =\n  f\n  x" + END, False, 0.05 + 0.2 + 0.1),
    ],
)  # fmt: skip
def test_seed_2(text, truncated, reward):
    changed = SEED_2.gates[3].model_copy(update={"settings": {"timeout": 0.2}})
    card = SEED_2.model_copy(update={"gates": (*SEED_2.gates[:3], changed)})
    scored = compose(card).score([Answer(text, {"tests": TESTS}, truncated=truncated)])
    assert scored.rewards == [pytest.approx(reward)], scored.judgements


def test_the_sandbox_is_recorded():
    assert sandbox(SEED_2.gates) in ("bubblewrap", "seccomp")
