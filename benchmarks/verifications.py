"""Verifications a second: the warm sandbox against one subprocess a candidate, in the same run on the same machine.

    python benchmarks/verifications.py [jobs]

Prints, for Python tests, OCaml type checks and tests, and proofs in Coq and Lean, jobs a second of wall time and of CPU time: for each
tier that holds and for plain subprocesses (no isolation at all), and the ratio. Floors on two shared cores: 120, 100, 30, 25 and 20
jobs/s. Absolute numbers mean nothing on another machine; ratios do. What is not installed is left out. For Lean set OCTAVO_LEAN to a
`lean` program; its proofs are over the tests' core library, since a program without Init reads nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from stages.train.verifiers import (
    coq_pool,
    coq_text,
    isolation,
    lean_pool,
    lean_setup,
    lean_text,
    ocaml_build,
    ocaml_pool,
    proof_build,
    sandbox,
)
from stages.train.verifiers.faults import VerifierUnavailable
from stages.train.verifiers.python_pool import Job, Pool

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
RIGHT = [3, 0, 1, 50, 4]


def cpu_seconds() -> float:
    """CPU seconds of this process and its reaped children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def family_cpu_seconds(pid: int) -> float:
    """CPU seconds of a live process, its live children, and all that they have reaped. A killed namespace reports none of it."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if pid in (int(stat.parent.name), int(fields[1])):
                total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def measured(work: Callable[[], float], jobs: int) -> tuple[float, float]:
    """(jobs a wall second, jobs a CPU second). `work` returns CPU seconds that `cpu_seconds` does not see."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    unseen = work()
    return jobs / (time.perf_counter() - wall), jobs / (cpu_seconds() - cpu + unseen)


def sandboxed(tier: isolation.Tier, jobs: int) -> float:
    """Start the zygote, run distinct jobs in batches of 64, end it. The start and the canaries are part of the price."""
    pool, before = Pool(tier), cpu_seconds()
    todo = [Job(CODE.replace("{number}", str(number)), "function", ("f",), json.dumps(CALLS), 1.0, 512 * 2**20) for number in range(jobs)]
    for start in range(0, jobs, 64):
        for ran in pool.run(todo[start : start + 64]):
            assert [value.value for value in ran.values] == RIGHT, ran
    inside, mine = sum(family_cpu_seconds(zygote.pid) for zygote in pool.zygotes), cpu_seconds() - before
    pool.close()
    return inside - (cpu_seconds() - before - mine)  # less what closing made visible


def subprocesses(jobs: int) -> float:
    """One interpreter a candidate, without isolation: what a script would do."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "candidate.py"
        for number in range(jobs):
            file.write_text(CODE.replace("{number}", str(number)) + f"\nprint([f(*call) for call in {CALLS!r}] == {RIGHT!r})\n")
            done = subprocess.run([isolation.python(), "-I", "-S", str(file)], capture_output=True, text=True, timeout=60)
            assert done.stdout == "True\n", done
    return 0.0


OCAML = """
(* Largest altitude on the way; job {number}. *)
let f gain =
  let rec go best here = function
    | [] -> best
    | step :: rest -> go (max best (here + step)) (here + step) rest
  in
  go 0 0 gain
"""
OCAML_TESTS = "let () = assert (f [-5; 1; 5; 0; -7] = 1); assert (f [-4; -3; 2] = 0); assert (f [] = 0); assert (f [1; 2; 3] = 6)"


def ocaml_sandboxed(tier: isolation.Tier, jobs: int, tests: str) -> float:
    """As `sandboxed`, for OCaml; without tests a type check."""
    ocaml_build.program()  # built once a machine
    ocaml_build.checker()
    pool, before = ocaml_pool.Pool(tier) if tests else ocaml_pool.CheckPool(tier), cpu_seconds()
    todo = [ocaml_pool.Job("", OCAML.replace("{number}", str(number)), tests, 2.0, 512 * 2**20) for number in range(jobs)]
    for start in range(0, jobs, 64):
        for one in pool.run(todo[start : start + 64]):
            assert one.outcome == ("tested" if tests else "compiles") and all(one.cases), one
    inside, mine = sum(family_cpu_seconds(zygote.pid) for zygote in pool.zygotes), cpu_seconds() - before
    pool.close()
    return inside - (cpu_seconds() - before - mine)


def ocaml_subprocesses(jobs: int, tests: str) -> float:
    """One compiler a candidate, and one run of its byte code where there are tests."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(jobs):
            (Path(folder) / "answer.ml").write_text(OCAML.replace("{number}", str(number)) + tests)
            how = ["-o", "answer"] if tests else ["-stop-after", "typing"]
            subprocess.run(["ocamlc", *how, "answer.ml"], cwd=folder, check=True, timeout=60)
            if tests:
                subprocess.run(["./answer"], cwd=folder, check=True, timeout=60)
    return 0.0


COQ_STATEMENT = "Theorem t : forall n : nat, n + {number} = {number} + n."
COQ_PROOF = "Proof. induction n as [|n IH]. reflexivity. simpl. rewrite IH. reflexivity. Qed."
LEAN_STATEMENT = "theorem t{number} (n : N) : Eq (N.add N.zero n) n"
LEAN_PROOF = "N.rec (Eq.refl N.zero) (fun _ h => N.succ_same h) n"
LEAN_CORE = Path(__file__).parents[1] / "tests/stages/train/lean_core.lean"


def proofs_sandboxed(pool: Any, todo: list[Any]) -> float:
    """As `sandboxed`, for proofs."""
    proof_build.library()  # built once a machine
    before = cpu_seconds()
    for start in range(0, len(todo), 64):
        for one in pool.run(todo[start : start + 64]):
            assert one.outcome == "proved", one
    inside, mine = sum(family_cpu_seconds(zygote.pid) for zygote in pool.zygotes), cpu_seconds() - before
    pool.close()
    return inside - (cpu_seconds() - before - mine)


def coq_sandboxed(tier: isolation.Tier, jobs: int) -> float:
    """Proofs by induction, their axioms listed."""
    todo = [
        coq_text.Job(COQ_STATEMENT.format(number=number % 40), COQ_PROOF + " " * (number // 40), (), 5.0, 2**31) for number in range(jobs)
    ]
    return proofs_sandboxed(coq_pool.Pool("", tier), todo)


def coq_subprocesses(jobs: int) -> float:
    """One coqc a candidate, without a goal that was stated first."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(jobs):
            (Path(folder) / "answer.v").write_text(f"{COQ_STATEMENT.format(number=number % 40)}\n{COQ_PROOF}\nPrint Assumptions t.\n")
            subprocess.run(["coqc", "-q", "answer.v"], cwd=folder, check=True, timeout=60, stdout=subprocess.DEVNULL)
    return 0.0


def lean_sandboxed(found: lean_setup.Installation, tier: isolation.Tier, jobs: int) -> float:
    """Proofs over the tests' core library, which is read anew for each, as by a fresh process."""
    core = LEAN_CORE.read_text().rstrip()
    todo = [lean_text.Job(core, LEAN_STATEMENT.format(number=number), LEAN_PROOF, "proof", (), 5.0, 2**33) for number in range(jobs)]
    return proofs_sandboxed(lean_pool.Pool(found, tier), todo)


def lean_subprocesses(found: lean_setup.Installation, jobs: int) -> float:
    """One lean a candidate, without a goal that was stated first."""
    core = LEAN_CORE.read_text()
    for number in range(jobs):
        text = f"{core}\n{LEAN_STATEMENT.format(number=number)} := {LEAN_PROOF}\n#print axioms t{number}\n"
        subprocess.run([*found.command], input=text, text=True, check=True, timeout=60, stdout=subprocess.DEVNULL)
    return 0.0


def compared(
    what: str,
    naive: Callable[[int], float],
    warm: Callable[[isolation.Tier, int], float],
    jobs: int,
    tiers: Sequence[isolation.Tier] = isolation.TIERS,
) -> None:
    """Print the subprocesses of one kind of verification, then each tier."""
    few = max(jobs // 10, 20)
    plain = measured(lambda: naive(few), few)
    print(f"{what + ', subprocess':32} {plain[0]:7.0f} jobs/s wall {plain[1]:7.0f} jobs/s CPU")
    for tier in tiers:
        if sandbox.holes(tier):
            print(f"{what + ', ' + tier:32} does not hold here")
            continue
        found = measured(lambda tier=tier: warm(tier, jobs), jobs)  # type: ignore[misc]
        ratios = f"{found[0] / plain[0]:5.1f}x wall {found[1] / plain[1]:5.1f}x CPU"
        print(f"{what + ', ' + tier:32} {found[0]:7.0f} jobs/s wall {found[1]:7.0f} jobs/s CPU  {ratios}")


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    compared("Python tests", subprocesses, sandboxed, jobs)
    if shutil.which("ocamlc"):
        compared("OCaml types", lambda n: ocaml_subprocesses(n, ""), lambda tier, n: ocaml_sandboxed(tier, n, ""), jobs)
        compared("OCaml tests", lambda n: ocaml_subprocesses(n, OCAML_TESTS), lambda tier, n: ocaml_sandboxed(tier, n, OCAML_TESTS), jobs)
    if shutil.which("coqtop"):
        compared("Coq proofs", coq_subprocesses, coq_sandboxed, jobs, ("bubblewrap",))
    with contextlib.suppress(VerifierUnavailable):
        found = lean_setup.installation()
        if found.kind == "program":
            compared(
                "Lean proofs", lambda n: lean_subprocesses(found, n), lambda tier, n: lean_sandboxed(found, tier, n), jobs, ("bubblewrap",)
            )


if __name__ == "__main__":
    main()
