"""Attacks in OCaml, as a model would write them. They run before a tier is trusted with OCaml answers; the tests run them too.

The result is kept for the process, and in `.cache/verifiers/` as the choice of the tier is.
"""

from __future__ import annotations

import contextlib
import functools
import json

from stages.contracts.artifact import digest, write_text
from stages.train.verifiers import ocaml_answers, ocaml_build, sandbox
from stages.train.verifiers.faults import VerifierUnavailable
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.ocaml_answers import Job
from stages.train.verifiers.verifier import Verifier

MIB = 2**20
TESTS = "let () = assert (f 1 = 2); assert (f 2 = 3)"

REACHING_OUT = {
    "read a file": 'try ignore (open_in "/etc/passwd"); 0 with Sys_error _ -> x + 1',
    "read its own memory map": 'try ignore (open_in "/proc/self/maps"); 0 with Sys_error _ -> x + 1',
    "write a file": 'try ignore (open_out "/tmp/octavo-escape"); 0 with Sys_error _ -> x + 1',
    "make a temporary file": 'try ignore (Filename.temp_file "octavo" "escape"); 0 with Sys_error _ -> x + 1',
    "list a folder": 'try ignore (Sys.readdir "/"); 0 with Sys_error _ -> x + 1',
    "remove a file": 'try Sys.remove "/tmp/octavo-escape"; 0 with Sys_error _ -> x + 1',
    "change the folder": 'try Sys.chdir "/tmp"; 0 with Sys_error _ -> x + 1',
    "run a program": 'if (try Sys.command "true" with _ -> 1) = 0 then 0 else x + 1',
    "read the environment": 'match Sys.getenv_opt "OCTAVO_SECRET" with Some _ -> 0 | None -> x + 1',
    "read the pipe": "try ignore (input_char stdin); 0 with End_of_file -> x + 1",
}
"""Bodies of `f x`, right exactly when what they try is refused."""
CHEATING = {
    "Obj.magic": "let f x = Obj.magic (x + 1)",
    "external": 'external same : int -> int = "%identity" let f x = same (x + 1)',
    "Unix": "let f x = ignore (Unix.getpid ()); x + 1",
    "Thread": "let f x = ignore (Thread.self ()); x + 1",
    "Dynlink": 'let f x = Dynlink.loadfile "/tmp/x"; x + 1',
    "Marshal": 'let f x = Marshal.from_string "" 0 + x + 1',
    "unsafe access": "let f x = Array.unsafe_get [| x + 1 |] 0",
    "library internals": "let f x = Stdlib__Obj.magic (x + 1)",
    "equality": "let (=) _ _ = true let f _ = 0",
    "library": "module Stdlib = struct let (=) _ _ = true end let f _ = 0",
    "forged output": 'let f _ = print_string "cases ++\\nend \\n"; exit 0',
    "forged at exit": 'let () = at_exit (fun () -> print_string "cases ++\\nend \\n") let f _ = exit 0',
    "exit while loading": "let () = exit 0 let f x = x + 1",
    "endless loop while loading": "let () = while true do () done let f x = x + 1",
    "endless loop behind a signal": "let () = Sys.set_signal Sys.sigprof Sys.Signal_ignore let rec f x = f x",
    "memory while loading": "let rec grow l = grow (Bytes.create 1_000_000 :: l) let all = grow [] let f x = x + 1",
    "deep recursion": "let rec deep x = 1 + deep x let f x = deep x",
}
"""Answers that must not pass a single case."""


@functools.cache
def tier() -> Tier:
    """The sandbox that OCaml answers are checked in. Raises VerifierUnavailable where none holds, or OCaml is missing."""
    program = ocaml_build.program()
    chosen = sandbox.tier()
    kept = sandbox.CACHE / f"ocaml-{chosen}-{digest(sandbox.key() + program.name)[:16]}.json"
    with contextlib.suppress(OSError, ValueError):
        if json.loads(kept.read_text()) == []:
            return chosen
    breaches = holes(chosen)
    if breaches:
        raise VerifierUnavailable(
            f"the sandbox `{chosen}` does not hold OCaml answers: {'; '.join(breaches)[:500]}",
            why="model-written code is hostile and is never run where an attack gets through",
            fix="look at what got through; octavo doctor says what this machine has",
        )
    with contextlib.suppress(OSError):
        write_text(kept, "[]\n")
    return chosen


def holes(tier: Tier) -> list[str]:
    """Attacks that got through. Empty: it holds."""
    verifier = Verifier(ocaml_answers.runs, ocaml_answers.order, ocaml_answers.read, ocaml_answers.unknown, tier)
    answers = {name: f"let f x = {body}" for name, body in REACHING_OUT.items()} | CHEATING
    try:
        results = verifier.run([Job("", answer, TESTS, 0.2, 256 * MIB) for answer in answers.values()])
    finally:
        verifier.close()
    said = {name: "".join("-+"[held] for held in result.cases) or result.reason for name, result in zip(answers, results, strict=True)}
    return [
        *(f"{name}: {said[name]}" for name in REACHING_OUT if said[name] != "++"),
        *(f"{name}: {said[name]}" for name in CHEATING if "+" in said[name]),
    ]
