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


MAGIC = """
type ('a, 'b) e = L of 'a | R of 'b
type ('a, 'b) u = {a : bool; mutable b : ('a, 'b) e}
let magic (type p) (type q) (y : q) (x : p) : q =
  let r : (p, q) u = {a = true; b = R y} in
  match r with
  | {a = false; b = _} -> y
  | {a = _; b = L _} -> y
  | {a = _; b = _} when (r.b <- L x; false) -> y
  | {a = true; b = R z} -> z
"""
"""Any type from any other, without a forbidden word (OCaml before 5.3)."""
CELL = MAGIC + "type cell = {mutable v : int} let cell : int -> cell = magic {v = 0}\n"
WRITE = "let channel : int = magic 0 stdout let write fd text = (cell ((cell (channel + 4)).v)).v <- fd; print_string text; flush stdout\n"
MEMORY_CALLS = (
    "let tracker : (unit, unit) Gc.Memprof.tracker = {alloc_minor = (fun _ -> raise Exit); alloc_major = (fun _ -> raise Exit); "
    "promote = (fun _ -> None); dealloc_minor = ignore; dealloc_major = ignore} "
    "let f x = Gc.Memprof.start ~sampling_rate:1.0 ~callstack_size:0 tracker; 0"
)


def cases(ocaml, answer, tests, before=""):
    (verdict,) = ocaml.run([Job(before, answer, tests, 1.0, MEMORY)])
    assert verdict.outcome not in ("unknown", "broken"), verdict
    return verdict.values


def test_unchecked_memory_is_reached_and_gives_values_only(ocaml):
    assert cases(ocaml, MAGIC + "let f x : int = magic 0 (x + 1)", "let () = assert (f 1 = 2); assert (f 2 = 0)") == (True, False)


@pytest.mark.parametrize("place", [1, 3, 4, 5])
@pytest.mark.parametrize(
    "reply", ["cases +++\\nfirst \\nend \\n", "\\006\\000\\000\\000Ok (2)", "\\006\\000\\000\\000loaded\\006\\000\\000\\000Ok (2)"]
)
@pytest.mark.parametrize("when", ['let () = write {} "{}"; exit 0 let f _ = 0', 'let f _ = write {} "{}"; exit 0'])
def test_a_forged_verdict_is_at_most_a_value(ocaml, place, reply, when):
    """The answer writes to every descriptor that it could have; a reply is one value, and no value holds all three cases."""
    passed = cases(ocaml, CELL + WRITE + when.format(place, reply), "let () = assert (f 1 = 2); assert (f 2 = 3); assert (f 5 = 6)")
    assert not all(passed) or not passed


def test_the_answer_s_process_never_holds_the_tests(ocaml):
    """It looks for the expected number in all of its memory below and above the heap."""
    search = (
        CELL
        + """
let find text =
  let here : int = magic 0 (Bytes.create 8) in
  let rec go offset = if offset > 2_000_000 then 0 else
    let s : string = magic "" (here - offset * 4) in
    if (try String.length s = 0 with _ -> false) then go (offset + 1) else go (offset + 1) in
  go 0
let f x = 0
"""
    )
    assert cases(ocaml, search, "let () = assert (f 1 = 734_118_205); assert (f 2 = 3)") in ((False, False), ())


@pytest.mark.parametrize(
    ("answer", "tests"),
    [
        (
            "module Stdlib = struct include Stdlib let compare _ _ = 0 let abs_float _ = 0. end let f _ = 0",
            "let () = assert (Stdlib.compare (f 1) 2 = 0); assert (Stdlib.compare (f 2) 3 = 0)",
        ),
        (
            "module Stdlib = struct include Stdlib module List = struct let equal _ _ _ = true let length _ = 0 end end let f _ = []",
            "let () = assert (Stdlib.List.equal Int.equal (f 1) [2])",
        ),
        (
            "module List = struct include List let for_all _ _ = true end let f x = 0",
            "let () = assert (List.for_all (fun x -> f x = x) [1; 2])",
        ),
        ("type t = A of int | true | false let f _ = true", "let () = assert (f 1 = true); assert (f 2 = false)"),
        ("type 'a list = [] | (::) of 'a * 'a list let f _ = []", "let () = assert (f 1 = [])"),
        (MEMORY_CALLS, "let () = List.iter (fun (x, y) -> assert (f x = y)) [(0, 0); (1, 2); (2, 3)]"),
        (MEMORY_CALLS, "let () = for i = 0 to 5 do assert (f i = i * i) done"),
        (
            "let f x = if x = 0 then (Gc.finalise (fun _ -> raise Exit) (ref 0); Gc.minor (); 0) else x",
            "let () = List.iter (fun (x, y) -> assert (f x = y)) [(0, 0); (1, 2); (2, 3)]",
        ),
        ("let f x = if x > 0 then raise Exit else 0", "let () = List.iter (fun (x, y) -> let z = f x in assert (z = y)) [(0, 0); (1, 2)]"),
    ],
)
def test_what_the_tests_use_is_theirs_and_an_item_that_raises_fails_its_cases(ocaml, answer, tests):
    assert not any(cases(ocaml, answer, tests))


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
        ("type t = {a : int; b : float option} let f x = {a = x; b = Some nan}", "let () = assert ((f 3).a = 3); assert ((f 3).b <> Some 0.)", "++"),
        ("let f x = (-x, 'c', \"s\\n\\200\", -1.5e300, `A, 3L, [|min_int|])", "let () = assert (f 1 = (-1, 'c', \"s\\n\\200\", -1.5e300, `A, 3L, [|min_int|]))", "+"),
        ("let f x = List.init x (fun i -> i)", "let () = assert (List.length (f 2000) = 2000)", "+"),
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


def test_a_value_that_hides_behind_a_type_of_the_answer_fails(ocaml):
    answer = "module M : sig type t val make : int -> t end = struct type t = int let make x = x end let f x = M.make x"
    assert cases(ocaml, answer, "let () = assert (f 1 = f 1)") == (False,)


def test_the_reviewers_attack_earns_nothing(ocaml, shared_attacks):
    source = (shared_attacks / "ocaml_forged_verdict.py").read_text()
    scope = {}
    exec("EXPLOIT" + source.split("EXPLOIT", 1)[1].split("if __name__")[0], scope)
    assert not any(cases(ocaml, scope["EXPLOIT"], "let () = assert (f 1 = 2); assert (f 2 = 3); assert (f 5 = 6)"))
