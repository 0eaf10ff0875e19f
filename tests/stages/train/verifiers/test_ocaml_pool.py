"""The OCaml pool: three kinds of outcomes, faults that are never verdicts, one zygote, and sources that the code hash covers."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from stages.train.verifiers import ocaml_build, ocaml_pool, zygote_pool
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.ocaml_pool import Checked, CheckPool, Job, Pool, read
from stages.train.verifiers.ocaml_process import OcamlZygote
from stages.train.verifiers.zygote_process import Answered

if shutil.which("ocamlc") is None and os.environ.get("CI") != "true":
    pytest.skip("OCaml is not installed (apt-get install ocaml-nox)", allow_module_level=True)

MEMORY = 512 * 2**20
JOB = Job("", "let f x = x + 1", "let () = assert (f 1 = 2); assert (f 2 = 3); assert (f 2 = 5)", 1.0, MEMORY)


@pytest.fixture(scope="module")
def ocaml(tier):
    one = Pool(tier)
    yield one
    one.close()


def test_outcomes_in_order(ocaml):
    texts = [
        "let f x = x + 1",
        "let f x = x",
        "let f x =",
        "",
        "let f x = exit 1",
        "let () = raise Exit",
        'external f : int -> int = "f"',
        "let g = 1",
    ]
    found = ocaml.run([replace(JOB, answer=text) for text in texts])
    assert [one.outcome for one in found] == ["tested", "tested", "syntax", "empty", "stopped", "stopped", "stopped", "tested"]
    assert found[0].cases == (True, True, False) and found[1].cases == (False, False, False) and found[7].cases == (False, False, False)
    assert found[4].reason == "ended without a result"
    assert found[6].reason == "uses `external`, which answers may not"


def test_cases_are_in_the_order_of_the_source(ocaml):
    tests = "let () = assert (f 1 = 2); assert (f 2 = 0)\nlet () = assert (f 3 = 0); assert (f 4 = 5)"
    assert ocaml.run([replace(JOB, tests=tests)])[0].cases == (True, False, False, True)


def test_a_program_of_a_fresh_start_each(ocaml):
    """What one answer changes in the library's state, the next one does not see."""
    first = replace(JOB, answer="let f x = Random.init 5; Hashtbl.randomize (); x + 1")
    second = replace(JOB, answer="let f x = if Hashtbl.is_randomized () then 0 else x + 1")
    assert [one.cases for one in ocaml.run([first, second])] == [(True, True, False)] * 2


def test_equal_jobs_run_once(ocaml):
    ocaml.run([JOB])
    before = ocaml.zygotes[0].jobs
    assert [one.cases for one in ocaml.run([JOB, JOB, replace(JOB)])] == [(True, True, False)] * 3
    assert ocaml.zygotes[0].jobs == before


def test_time_outs_are_not_kept(ocaml):
    loop = replace(JOB, answer="let rec f x = f x", cpu=0.05)
    assert ocaml.run([loop])[0].reason == "timeout: used more than 0.05 s of CPU time"
    before = ocaml.zygotes[0].jobs
    ocaml.run([loop])
    assert ocaml.zygotes[0].jobs == before + 1


def test_a_killed_zygote_is_started_again_and_no_verdict_changes(ocaml):
    for number in range(6):
        ocaml.run([replace(JOB, answer=f"let f x = x + 1 + {number} - {number}")])
        os.kill(ocaml.pid, signal.SIGKILL)
        found = ocaml.run([replace(JOB, answer=f"let f x = x + {number} + 1 - {number}"), replace(JOB, answer=f"let f x = {number}")])
        assert found[0].cases == (True, True, False)
        assert found[1].cases == (number == 2, number == 3, number == 5)


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


def test_answers_run_as_nobody_in_particular(ocaml):
    ocaml.run([JOB])
    assert ocaml.zygotes[0].uid == (60720 if os.geteuid() == 0 else os.geteuid())


def test_a_zygote_that_fails_its_canaries_gives_no_verdict(tier, monkeypatch):
    monkeypatch.setattr(ocaml_pool, "_CANARIES", ((JOB, Checked("compiles")),))
    one = Pool(tier)
    try:
        found = one.run([JOB])
        assert found[0].outcome == "unknown" and "a known answer came back as tested" in found[0].reason
    finally:
        one.close()


def test_retirement(tier, monkeypatch):
    monkeypatch.setattr(zygote_pool.Pool, "retire_after", 10)
    one = Pool(tier)
    try:
        pids = set()
        for number in range(12):
            assert one.run([replace(JOB, answer=f"let f x = {number} + x")])[0].outcome == "tested"
            pids.add(one.pid)
        assert len(pids) >= 2
    finally:
        one.close()


NONCE = "0123456789abcdef"


@pytest.mark.parametrize(
    ("status", "cpu", "written", "outcome", "reason"),
    [
        (0, 0.0, b"0123456789abcdefitems 1\ncases ++-\nfirst \nend \n", "tested", ""),
        (0, 0.0, b"0123456789abcdeeitems 1\ncases +++\nfirst \nend \n", "stopped", "ended without a result"),
        (0, 0.0, b"cases +++\nend \n", "stopped", "ended without a result"),
        (0, 0.0, b"0123456789abcdefitems 1\ncases +++", "stopped", "ended without a result"),
        (0, 0.0, b"", "stopped", "ended without a result"),
        (0, 0.0, b"0123456789abcdefend \n", "unknown", "the verifier's answer cannot be read"),
        (0, 0.0, b"0123456789abcdeferrors many\nend \n", "unknown", "the verifier's answer cannot be read"),
        (256, 0.0, b"", "stopped", "ended without a result"),
        (9, 0.0, b"", "unknown", "the candidate's process was killed from outside"),
        (9, 2.0, b"", "stopped", "timeout: used more than 1 s of CPU time"),
        (27, 1.0, b"", "stopped", "timeout: used more than 1 s of CPU time"),
        (24, 1.0, b"", "stopped", "timeout: used more than 1 s of CPU time"),
        (11, 0.0, b"", "stopped", "crashed"),
        (0, 0.0, None, "unknown", "the verifier could not start a process"),
    ],
)
def test_what_an_answer_means(status, cpu, written, outcome, reason):
    found = read(JOB, NONCE, Answered(status, "", cpu, written))
    assert (found.outcome, found.reason) == (outcome, reason)
    assert found.cases == ((True, True, False) if outcome == "tested" else ())


def test_the_sources_are_what_the_code_hash_stands_for(monkeypatch):
    assert ocaml_build.sources_digest() == ocaml_build.SOURCES_DIGEST
    changed = ocaml_build.sources() | {"runs.ml": "let () = ()"}
    monkeypatch.setattr(ocaml_build, "sources", lambda: changed)
    with pytest.raises(VerifierUnavailable, match="digest"):
        ocaml_build.program()
    with pytest.raises(VerifierUnavailable, match="digest"):
        ocaml_build.checker()


def test_no_compiler_is_unavailable_and_never_a_verdict(monkeypatch, tier):
    ocaml_build.compiler.cache_clear()
    monkeypatch.setattr(ocaml_build.shutil, "which", lambda name: None)
    try:
        one = Pool(tier)
        assert one.run([JOB]) == [Checked("unknown", "ocamlc is not installed", keep=False)]
    finally:
        ocaml_build.compiler.cache_clear()


def test_sources_that_do_not_compile_are_unavailable(monkeypatch, tmp_path):
    broken = dict.fromkeys(ocaml_build.SOURCES, "") | {"runs.ml": "let () ="}
    monkeypatch.setattr(ocaml_build, "sources", lambda: broken)
    monkeypatch.setattr(ocaml_build, "SOURCES_DIGEST", ocaml_build.sources_digest())
    monkeypatch.setattr(ocaml_build, "CACHE", tmp_path)
    with pytest.raises(VerifierUnavailable, match="Syntax error"):
        ocaml_build.program()
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_no_zygote_does_not_start(monkeypatch, tier):
    monkeypatch.setattr(ocaml_build, "program", lambda: Path(shutil.which("true")).resolve())
    with pytest.raises(VerifierFault, match="did not start"):
        OcamlZygote(tier)


def test_an_answer_that_is_too_long_is_not_read(ocaml):
    """A zygote that reads three megabytes dies, and its death would be unknown."""
    long = replace(JOB, answer=f'let f x = "{"a" * 3_000_000}"')
    deep = replace(JOB, answer="let f x = " + "(" * 50_000 + "x" + ")" * 50_000)
    found = ocaml.run([long, deep, JOB])
    assert (found[0].outcome, found[0].reason) == ("stopped", "longer than 2 MiB")
    assert [one.outcome for one in found[1:]] == ["tested", "tested"]


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
def test_machine_code_and_byte_code_say_the_same(tier, before):
    checks, runs = CheckPool(tier), Pool(tier)
    try:
        jobs = [Job(before, answer, "", 2.0, MEMORY) for answer in BOTH]
        found = checks.run(jobs)
        assert found == runs.run(jobs)
        assert {one.outcome for one in found} == {"compiles", "errors", "syntax"} | (set() if before else {"empty"})
        assert all(one.outcome != "unknown" for one in found)
    finally:
        checks.close()
        runs.close()


@pytest.mark.parametrize(
    "deep",
    ["let f x = " + "(" * 50_000 + "x" + ")" * 50_000, "let f x = " + "1 + " * 30_000 + "x", "let f = " + "fun x -> " * 30_000 + "x"],
)
def test_depth_ends_the_same_way_in_every_process(tier, deep):
    """Machine code nests on the process's stack; where that gives out must not move with the address layout."""
    seen = set()
    for _ in range(4):
        one = CheckPool(tier, lanes=1)
        seen.add(one.run([Job("", deep, "", 5.0, MEMORY)])[0])
        one.close()
    (found,) = seen
    assert found.outcome != "unknown"


def test_without_the_native_compiler_byte_code_checks(monkeypatch, tier):
    there = shutil.which
    monkeypatch.setattr(ocaml_build.shutil, "which", lambda name: None if name == "ocamlopt" else there(name))
    assert ocaml_build.checker() == ocaml_build.program()
    one = CheckPool(tier, lanes=1)
    assert one.run([Job("", "let f x = x", "", 2.0, MEMORY)])[0] == Checked("compiles")
    one.close()


def test_a_native_program_that_cannot_be_linked_gives_way_to_byte_code(monkeypatch):
    runs = ocaml_build.program()
    monkeypatch.setattr(ocaml_build.shutil, "which", lambda name: "/bin/false")
    monkeypatch.setattr(ocaml_build, "CACHE", runs.parent / "nothing-here")
    monkeypatch.setattr(ocaml_build, "program", lambda: runs)
    assert ocaml_build.checker() == runs


@pytest.mark.parametrize(
    "answer",
    [
        "open struct let (=) _ _ = true end let f x = 0",
        "let ((=), f) = ((fun _ _ -> true), fun x -> 0)",
        "let ((=) as g) = fun _ _ -> true let f x = 0",
        "let ({contents = (=)}) = {contents = fun _ _ -> true} let f x = 0",
        "type bool = true | false let (=) _ _ = true let f x = 0",
        "module rec M : sig val (=) : 'a -> 'a -> bool end = struct let (=) _ _ = true end open M let f _ = 0",
        "module F () = struct let (=) _ _ = true end include F () let f _ = 0",
        "module Stdlib = struct module List = List let (=) _ _ = true end module Library = Stdlib let f _ = 0",
        "let octavo_case = fun _ _ -> () let f x = 0",
        "let () = ignore (Gc.create_alarm (fun () -> raise Exit)) let f x = x",
        "let () = Gc.finalise (fun _ -> exit 0) (ref 0) let f x = Gc.full_major (); x",
        'let () = Printexc.register_printer (fun _ -> Some "cases +++\\nend ") let f x = failwith "a"',
        "let f x = CamlinternalOO.create_table [||]",
        'let f x = let module M = struct external g : int -> int = "caml_sys_exit" end in M.g 0',
        "let f x = {%external|x|}",
        "let raise _ = () let failwith _ = () let f x = 0",
        "let f x = Sys.set_signal Sys.sigsegv Sys.Signal_ignore; 0",
        "let f x = x + 2;; exit 0",
        '#directory "/";; let f x = x + 1',
        'let f x = x + 1 (* " *)',
    ],
)
def test_cheats_pass_no_case(ocaml, answer):
    found = ocaml.run([replace(JOB, answer=answer)])[0]
    assert found.outcome != "unknown" and not any(found.cases), found


def test_reasons_do_not_hold_the_name_that_an_answer_ran_under(ocaml):
    jobs = [replace(JOB, answer=f"exception Mine of int let f x = raise (Mine {number})") for number in range(2)]
    assert [one.reason for one in ocaml.run(jobs)] == ["raised Mine", "raised Mine"], "equal answers give equal columns"
