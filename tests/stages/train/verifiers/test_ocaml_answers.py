# ruff: noqa: E501
"""OCaml answers: kinds of outcomes, faults that are never verdicts, and an answer's process that knows nothing of its tests."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from stages.train.verifiers import ocaml_answers, ocaml_build
from stages.train.verifiers.box import Box, Ended
from stages.train.verifiers.ocaml_answers import Job, read
from stages.train.verifiers.verdict import Checked, VerifierFault, VerifierUnavailable

if shutil.which("ocamlc") is None and os.environ.get("CI") != "true":
    pytest.skip("OCaml is not installed (apt-get install ocaml-nox)", allow_module_level=True)

MEMORY = 512 * 2**20
JOB = Job("", "let f x = x + 1", "let () = assert (f 1 = 2); assert (f 2 = 3); assert (f 2 = 5)", 1.0, MEMORY)


@pytest.fixture(scope="module")
def checks(tier, fresh):
    return fresh(tier, 1, ocaml_answers.checks)


def test_outcomes_in_order(ocaml):
    expected = {
        "let f x = x + 1": ("tested", "", (True, True, False)),
        "let f x = x": ("tested", "", (False, False, False)),
        "let g = 1": ("tested", "line 1, column 18: Unbound value f", (False, False, False)),
        'let f x = x ^ "a"': (
            "tested",
            "line 1, column 20: This expression has type int but an expression was expected of type string",
            (False,) * 3,
        ),
        "": ("empty", "holds no code", ()),
        "let f x = exit 1": ("stopped", "ended without a result", ()),
        "let () = raise Exit": ("stopped", "raises an exception while it loads", ()),
        'external f : int -> int = "f"': ("stopped", "uses `external`, which answers may not", ()),
    }
    results = ocaml.run([replace(JOB, answer=text) for text in expected])
    assert {text: (result.outcome, result.reason, result.values) for text, result in zip(expected, results, strict=True)} == expected


OWN_RECORDS = """type p = {a : int; b : int}
type t = A of {x : int; y : p option} | B of p
let f x = A {x; y = Some {a = x; b = 1}}
let g = function A {x; y = Some p} -> B {p with b = x} | t -> t"""
BINDING = """let ( let* ) = Option.bind
let ( and* ) a b = match a, b with Some a, Some b -> Some (a, b) | _ -> None
let f x = if x > 0 then Some x else None
let map g l = List.filter_map g l"""


def test_records_of_constructors_cross_and_operators_that_bind_are_the_answers(ocaml):
    """A constructor's own record is written without its module; a function that is given may use what else the answer defines."""
    expected = {
        (OWN_RECORDS, "let () = assert (g (f 3) = B {a = 3; b = 3}); assert (g (A {x = 1; y = None}) = A {x = 1; y = None})"): (True, True),
        (OWN_RECORDS, "let () = assert (g (A {x = 2; y = Some {a = 5; b = 6}}) = B {a = 5; b = 6})"): (False,),
        (
            BINDING,
            "let () = assert ((let* x = f 3 and* y = f 4 in Some (x + y)) = Some 7); assert ((let* x = f 3 in f (x - 3)) = Some 0)",
        ): (True, False),
        (BINDING, "let () = assert (map f [1; 0] = [1]); assert (map (fun x -> f (x - 1)) [1; 2] = [1])"): (True, True),
        (BINDING, "let () = let k = 1 in assert (map (fun x -> f (x - k)) [1; 2] = [1])"): (),
    }
    results = ocaml.run([replace(JOB, answer=answer, tests=tests) for answer, tests in expected])
    assert [result.values for result in results] == list(expected.values())
    assert [result.outcome for result in results] == ["tested"] * 4 + ["broken"]


def test_descriptors_may_have_any_numbers(tier, fresh):
    """The host's files decide which: none of those of an answer may be closed in making room for another."""
    for least in (16, 490, 499, 500):
        held = [os.dup(0)]
        while held[-1] < least:
            held.append(os.dup(0))
        verifier = fresh(tier, 1, ocaml_answers.runs)
        assert [verdict.values for verdict in verifier.run([replace(JOB, answer=f"let f x = x + 1 (* {n} *)") for n in range(4)])] == [
            (True, True, False)
        ] * 4
        verifier.close()
        for descriptor in held:
            os.close(descriptor)


def test_a_program_of_a_fresh_start_each(ocaml):
    """What one answer changes in the library's state, the next one does not see."""
    first = replace(JOB, answer="let f x = Random.init 5; Hashtbl.randomize (); x + 1")
    second = replace(JOB, answer="let f x = if Hashtbl.is_randomized () then 0 else x + 1")
    assert [verdict.values for verdict in ocaml.run([first, second])] == [(True, True, False)] * 2


def test_no_zombies_and_no_descriptors_are_left(ocaml):
    ocaml.run([JOB])
    files = len(os.listdir("/proc/self/fd"))
    for number in range(40):
        ocaml.run([replace(JOB, answer=f"let f x = x + {number}")])
    ocaml.close()
    ocaml.run([replace(JOB, answer="let f x = 77")])
    assert len(os.listdir("/proc/self/fd")) == files
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    states = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] for pid in children]
    assert "Z" not in states


@pytest.mark.parametrize(
    ("status", "cpu", "why", "written", "outcome", "reason"),
    [
        (0, 0.0, "", b"items 1\ncases ++-\nfirst \nend \n", "tested", ""),
        (0, 0.0, "", b"items 1\ncases +++", "stopped", "ended without a result"), (0, 0.0, "", b"", "stopped", "ended without a result"),
        (0, 0.0, "", b"end \n", "unknown", "the verifier's answer cannot be read"),
        (0, 0.0, "", b"errors many\nend \n", "unknown", "the verifier's answer cannot be read"),
        (9, 0.0, "", b"", "unknown", "the answer's process was killed from outside"),
        (9, 2.0, "", b"", "stopped", "timeout: used more than 1 s of CPU time"),
        (27, 1.0, "", b"", "stopped", "timeout: used more than 1 s of CPU time"),
        (24, 1.0, "", b"", "stopped", "timeout: used more than 1 s of CPU time"),
        (11, 0.0, "", b"cases +++\nend \n", "stopped", "crashed"),
        (0, 0.0, "judge-27", b"", "stopped", "timeout: used more than 1 s of CPU time"),
        (0, 0.0, "judge-9", b"cases +++\nend \n", "unknown", "the answer's process was killed from outside"),
        (0, 0.0, "judge-11", b"cases +++\nend \n", "stopped", "crashed"),
        (0, 0.0, "judge-256", b"cases +++\nend \n", "stopped", "ended without a result"),
        (0, 0.0, "waited", b"", "stopped", "waits and does not answer"),
        (0, 0.0, "starved", b"", "unknown", "the verifier was starved"),
        (0, 0.0, "", b"items 1\ncases +\nfirst \nend \n", "unknown", "the verifier's answer cannot be read"),
        (0, 0.0, "", b"items 1\ncases ++++\nfirst \nend \n", "unknown", "the verifier's answer cannot be read"),
        (0, 0.0, "", b"items 1\ncases \nfirst \nend \n", "unknown", "the verifier's answer cannot be read"),
    ],
)  # fmt: skip
def test_what_the_end_of_the_processes_means(status, cpu, why, written, outcome, reason):
    verdict = read(replace(JOB, cases=3), Ended(status, cpu, why, written))
    assert verdict.outcome == outcome and verdict.reason.startswith(reason)
    assert verdict.values == ((True, True, False) if outcome == "tested" else ())


def test_other_sources_than_the_code_version_stands_for_are_refused(monkeypatch):
    assert ocaml_build.sources_digest() == ocaml_build.SOURCES_DIGEST
    monkeypatch.setattr(ocaml_build, "SOURCES_DIGEST", "0" * 16)
    for build in (ocaml_build.program, ocaml_build.checker):
        with pytest.raises(VerifierUnavailable, match="digest"):
            build()


def test_no_compiler_is_unavailable_and_never_a_verdict(monkeypatch, tier, fresh):
    ocaml_build.compiler.cache_clear()
    monkeypatch.setattr(ocaml_build.shutil, "which", lambda name: None)
    try:
        verifier = fresh(tier, 1, ocaml_answers.runs)
        assert verifier.run([JOB]) == [Checked("unknown", "ocamlc is not installed", keep=False)]
    finally:
        ocaml_build.compiler.cache_clear()


def test_sources_that_do_not_compile_are_unavailable(monkeypatch, tmp_path):
    (tmp_path / "ocaml").mkdir()
    for name in ("stubs.c", "inside.ml", "typing.ml", "runs.ml"):
        (tmp_path / "ocaml" / name).write_text("let () =" if name == "runs.ml" else "")
    monkeypatch.setattr(ocaml_build, "SOURCES", tmp_path / "ocaml")
    monkeypatch.setattr(ocaml_build, "SOURCES_DIGEST", ocaml_build.sources_digest())
    monkeypatch.setattr(ocaml_build, "CACHE", tmp_path / "cache")
    with pytest.raises(VerifierUnavailable, match="Syntax error"):
        ocaml_build.program()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_program_that_is_another_one_does_not_start(monkeypatch, tier, fresh):
    monkeypatch.setattr(ocaml_build, "program", lambda: Path(shutil.which("true")).resolve())
    with pytest.raises(VerifierFault, match="did not start"):
        Box(ocaml_answers.runs(tier), tier)
    assert fresh(tier, 1, ocaml_answers.runs).run([JOB])[0].outcome == "unknown"


def test_an_answer_that_is_too_long_is_not_read(ocaml):
    """Such a text would only cost time."""
    long = replace(JOB, answer=f'let f x = "{"a" * 3_000_000}"')
    deep = replace(JOB, answer="let f x = " + "(" * 50_000 + "x" + ")" * 50_000)
    verdicts = ocaml.run([long, deep, JOB])
    assert (verdicts[0].outcome, verdicts[0].reason) == ("stopped", "longer than 2 MiB")
    assert [verdict.outcome for verdict in verdicts[1:]] == ["tested", "tested"]


BOTH = (
    "let f x = x + 1",
    "let f x = x + true\nlet g y = y ^ 1\nlet h = f 2",
    "let f x =",
    "let f x = 'unfinished",
    "(* open comment let f x = x",
    "(* only a comment *)",
    "",
    '[@@@ocaml.warning "-8"]',
    "let f = ref []",
    "let f (x : int) : string = x",
    "let f x = undefined_name x",
    "open Nowhere",
    "module M = Map.Make (String) let f = M.cardinal",
    "module F (X : sig val x : int end) = struct let y = X.x end module A = F (struct let x = true end)",
    "class c = object method m = 1 end let f x = (new c)#m + x",
    "let f (lazy x) = x + Lazy.force (lazy 1)",
    'let f x = Printf.sprintf "%d %s" x x',
    "let f x = Obj.magic x + Marshal.total_size",
    'external f : int -> string = "%identity"',
    "type t = A | B of t let rec f = function A -> 0 | B x -> 1 + f x",
    "type 'a t = T : int t let f : type a. a t -> a = fun T -> 'c'",
    "let rec f x = f",
    "let f x = (fun y -> y y) x",
    "let f x = " + "(" * 2000 + "x" + ")" * 2000,
    "let f x = " + "1 + " * 2000 + "x",
    '#use "x.ml"',
    "let%ppx f x = x",
    "let f x = [%ppx x]",
    "let f () = exit 0;;  let () = f ()",
)


@pytest.mark.parametrize("before", ["", "let helper x = x * 2\n"])
def test_machine_code_and_byte_code_say_the_same(checks, ocaml, before):
    jobs = [Job(before, answer, "", 2.0, MEMORY) for answer in BOTH]
    verdicts = checks.run(jobs)
    assert verdicts == ocaml.run(jobs)
    assert {verdict.outcome for verdict in verdicts} == {"compiles", "errors", "syntax"} | (set() if before else {"empty"})


@pytest.mark.parametrize(
    "deep",
    ["let f x = " + "(" * 50_000 + "x" + ")" * 50_000, "let f x = " + "1 + " * 30_000 + "x", "let f = " + "fun x -> " * 30_000 + "x"],
)
def test_depth_ends_the_same_way_in_every_process(tier, deep, fresh):
    """Machine code nests on the process's stack; where that gives out must not move with the address layout."""
    seen = set()
    for _ in range(2):
        verifier = fresh(tier, 1, ocaml_answers.checks)
        seen.add(verifier.run([Job("", deep, "", 5.0, MEMORY)])[0])
        verifier.close()
    (verdict,) = seen
    assert verdict.outcome != "unknown"


def test_without_the_native_compiler_byte_code_checks(monkeypatch, tier, fresh):
    there = shutil.which
    monkeypatch.setattr(ocaml_build.shutil, "which", lambda name: None if name == "ocamlopt" else there(name))
    assert ocaml_build.checker() == ocaml_build.program()
    verifier = fresh(tier, 1, ocaml_answers.checks)
    assert verifier.run([Job("", "let f x = x", "", 2.0, MEMORY)])[0] == Checked("compiles")
    verifier.close()


def test_reasons_do_not_hold_the_name_that_an_answer_ran_under(ocaml):
    jobs = [replace(JOB, answer=f"exception Mine of int let f x = raise (Mine {number})") for number in range(2)]
    assert [verdict.reason for verdict in ocaml.run(jobs)] == ["raised Mine", "raised Mine"], "equal answers give equal columns"


# ---- the process that runs an answer, its memory lost


def cases(ocaml, answer, tests, before=""):
    (verdict,) = ocaml.run([Job(before, answer, tests, 5.0, MEMORY)])
    assert verdict.outcome not in ("unknown", "broken"), verdict
    return verdict.values


@pytest.mark.parametrize(
    ("answer", "tests", "right"),
    [
        ("let f g l = List.map g l", "let () = assert (f (fun x -> x + 1) [1; 2] = [2; 3]); assert (f String.length [\"a\"] = [2])", "+-"),
        ("let f g = g 1 + g 2", "let () = let k = 3 in assert (List.for_all (fun n -> f succ = n + k) [2])", "+"),
        ("let f a = Array.sort compare a", "let () = let a = [|3; 1; 2|] in f a; assert (a = [|1; 2; 3|])", "+"),
        ("let f r b = incr r; Bytes.fill b 0 1 'x'", "let () = let r = ref 1 and b = Bytes.make 2 'a' in f r b; assert (!r = 2 && b = Bytes.of_string \"xa\")", "+"),
        ("exception Mine of int let f x = raise (Mine x)", "let () = assert (try f 3 with Mine n -> n = 3); assert (try f 3 with Exit -> true)", "+-"),
        ("let f x = if x < 0 then invalid_arg \"neg\" else x", "let () = assert (try ignore (f (-1)); false with Invalid_argument t -> t = \"neg\")", "+"),
        ("let f ~x ?(y = 2) () = x + y", "let () = assert (f ~x:1 () = 3); assert (f ~x:1 ~y:5 () = 6)", "++"),
        ("type r = {mutable n : int} let f r = r.n <- r.n + 1", "let () = let r = {n = 1} in f r; f r; assert (r.n = 3)", "+"),
        ("let count = ref 0 let f () = incr count; !count", "let () = assert (f () = 1); assert (f () = 2)", "++"),
        ("let f x = fun y -> x + y", "let () = assert (f 1 2 = 3); assert (List.map (f 1) [1; 2] = [2; 3])", "++"),
        ("let ( +++ ) a b = a + b", "let () = assert (1 +++ 2 = 3)", "+"),
        ("let f = [1; 2]", "let () = assert (f = [1; 2])", "+"),
        ("module L = List module M = struct include List let two = 2 end let f x = x", "let () = assert (f (L.length [1]) = 1); assert (M.length [1] + M.two = 3)", "++"),
        ("module M = struct module N = struct let f x = x + 1 end end let g = M.N.f", "let () = assert (M.N.f 1 = g 1); assert (g 2 = 3)", "++"),
        ("type t = Leaf | Node of t * int let rec f n = if n = 0 then Leaf else Node (f (n - 1), n)", "let () = assert (f 2 = Node (Node (Leaf, 1), 2)); assert (f 0 = Leaf)", "++"),
        ("type t = {a : int; b : float option} let f x = {a = x; b = Some nan}", "let () = assert ((f 3).a = 3); assert ((f 3).b <> Some 0.)", "++"),
        ("let f x = (-x, 'c', \"s\\n\\200\", -1.5e300, `A, 3L, [|min_int|])", "let () = assert (f 1 = (-1, 'c', \"s\\n\\200\", -1.5e300, `A, 3L, [|min_int|]))", "+"),
        ("let f x = List.init x (fun i -> i)", "let () = assert (List.length (f 2000) = 2000)", "+"),
        ("let f x = List.init x (fun i -> i)", "let () = assert (f 100_000 = List.init 100_000 Fun.id)", "+"),
        ("let f x = String.length x", "let () = assert (f (String.make 900_000 'x') = 900_000)", "+"),
        ("let f x = String.make x 'x'", "let () = assert (f 900_000 = String.make 900_000 'x')", "+"),
    ],
)  # fmt: skip
def test_values_cross_between_the_processes(ocaml, answer, tests, right):
    assert "".join("-+"[held] for held in cases(ocaml, answer, tests)) == right


@pytest.mark.parametrize(
    ("answer", "tests"),
    [
        ("let f x = Hashtbl.create x", "let () = assert (Hashtbl.length (f 1) = 0)"),
        ("let f g = g 1", "let () = let k = 3 in assert (f (fun x -> x + k) = 4)"),
        ("let f x = lazy (x + 1)", "let () = assert (Lazy.force (f 1) = 2)"),
        ("let f l = List.to_seq l", "let () = assert (List.of_seq (f [1; 2]) = [1; 2])"),
    ],
)
def test_tests_that_need_what_cannot_cross_are_broken_and_no_fault_of_the_answer(ocaml, answer, tests):
    (verdict,) = ocaml.run([Job("", answer, tests, 1.0, MEMORY)])
    assert verdict.outcome == "broken" and "cannot be handed to another process" in verdict.reason
