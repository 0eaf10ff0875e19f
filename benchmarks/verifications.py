"""Verifications a second: boxes that fork an answer's process, against one plain subprocess an answer, in the same run.

    python benchmarks/verifications.py [jobs] [boxes]

Prints, for each tier that holds, jobs a second of wall time for Python tests, OCaml type checks and tests, and proofs in Lean (where it is
installed), each after one batch that starts the boxes. Absolute numbers mean nothing on another machine; ratios do.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from stages.train.verifiers import isolation, lean, lean_setup, ocaml_answers, python_answers, sandbox
from stages.train.verifiers.lean_text import Job as Proof
from stages.train.verifiers.verdict import VerifierUnavailable
from stages.train.verifiers.verifier import Verifier

BATCH = 64
CODE = '''
def f(xs):
    """Longest strictly increasing subsequence; job {number}."""
    import bisect
    tails = []
    for x in xs:
        place = bisect.bisect_left(tails, x)
        tails[place:place + 1] = [x]
    return len(tails)
'''
CALLS = [[[1, 5, 2, 3]], [[]], [[3, 2, 1]], [list(range(50))], [[7, 1, 2, 9, 3, 4]]]
OCAML = """
(* Largest altitude on the way; job {number}. *)
let f gain =
  let rec go best here = function [] -> best | step :: rest -> go (max best (here + step)) (here + step) rest in
  go 0 0 gain
"""
OCAML_TESTS = "let () = assert (f [-5; 1; 5; 0; -7] = 1); assert (f [-4; -3; 2] = 0); assert (f [] = 0); assert (f [1; 2; 3] = 6)"
CORE = Path(__file__).parents[1] / "tests/stages/train/lean_core.lean"


def python_job(number: int) -> python_answers.Job:
    return python_answers.Job(CODE.replace("{number}", str(number)), "function", ("f",), json.dumps(CALLS), 1.0, 512 * 2**20)


def ocaml_job(number: int, tests: str) -> ocaml_answers.Job:
    return ocaml_answers.Job("", OCAML.replace("{number}", str(number)), tests, 2.0, 512 * 2**20)


def proof(number: int) -> Proof:
    statement = "theorem swap (a b : Prop) (h : And a b) : And b a"
    return Proof(CORE.read_text().rstrip(), statement, f"⟨h.2, h.1⟩ -- {number}", "proof", (), 10.0, 2**32)


def rate(verifier: Verifier[Any, Any], job: Callable[[int], Any], jobs: int) -> float:
    """Jobs a second; every verdict must be good."""
    todo = [job(number) for number in range(jobs + BATCH)]
    try:
        verifier.run(todo[:BATCH] if jobs >= BATCH else todo[:2])
        began = time.perf_counter()
        for start in range(BATCH, len(todo), BATCH):
            results = verifier.run(todo[start : start + BATCH])
            assert all(result.outcome in ("values", "tested", "compiles", "proved") for result in results), results
        return jobs / (time.perf_counter() - began)
    finally:
        verifier.close()


def main(jobs: int, boxes: int | None) -> None:
    began = time.perf_counter()
    for number in range(20):
        code = f"{CODE.replace('{number}', str(number))}\nprint([f(*call) for call in {CALLS!r}])"
        subprocess.run([isolation.python(), "-I", "-S", "-c", code], check=True, capture_output=True)
    print(f"{'python, plain subprocesses':34}{20 / (time.perf_counter() - began):8.0f} jobs/s")
    for tier in isolation.TIERS:
        if not sandbox.holes(tier):
            in_tier(tier, jobs, boxes)


def in_tier(tier: isolation.Tier, jobs: int, boxes: int | None) -> None:
    def ocaml(program: Any) -> Verifier[Any, Any]:
        return ocaml_answers.Answers(program, ocaml_answers.asking, tier, boxes)

    def python() -> Verifier[Any, Any]:
        return Verifier(python_answers.program, python_answers.asking, tier, boxes)

    kinds: list[tuple[str, Callable[[], Verifier[Any, Any]], Callable[[int], Any], int]] = [
        ("python tests", python, python_job, jobs),
        ("ocaml checks", lambda: ocaml(ocaml_answers.checks), lambda number: ocaml_job(number, ""), jobs),
        ("ocaml tests", lambda: ocaml(ocaml_answers.runs), lambda number: ocaml_job(number, OCAML_TESTS), jobs),
        ("lean proofs", lambda: lean.Proofs(lean_setup.installation(), tier, boxes), proof, min(jobs, 16)),
    ]
    for name, verifier, job, count in kinds:
        try:
            print(f"{f'{name}, {tier}':34}{rate(verifier(), job, count):8.0f} jobs/s")
        except (VerifierUnavailable, AssertionError) as error:
            print(f"{f'{name}, {tier}':34} left out: {str(error)[:80]}")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(numbers[0] if numbers else 256, numbers[1] if len(numbers) > 1 else None)
