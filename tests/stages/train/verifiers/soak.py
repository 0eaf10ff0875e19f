"""Many jobs of known outcome against a pool whose zygotes are killed on purpose: between batches, and in the middle of them.

    python -m tests.stages.train.verifiers.soak [python|ocaml|checks] [jobs]

prints wrong verdicts, unknown ones, kills, descriptors, zombies and memory. The default test suite runs a smaller one.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stages.train.verifiers import ocaml_pool, python_pool

MIB = 2**20
BATCH = 20
EXPECTED: dict[str, set[str]] = {
    "good": {"values", "tested"},
    "bad": {"values", "tested"},
    "exit": {"stopped"},
    "crash": {"stopped"},
    "loop": {"stopped", "timeout"},
    "types": {"errors"},
    "syntax": {"syntax"},
    "memory": {"tested", "stopped"},
}


@dataclass
class Soaked:
    """What a soak measured."""

    jobs: int = 0
    wrong: list[Any] = field(default_factory=list)
    unknown: int = 0
    killed: int = 0
    seconds: float = 0.0
    descriptors: tuple[int, int] = (0, 0)
    """After the first batch and at the end, the pool still open."""
    zombies: int = 0
    memory: tuple[int, int] = (0, 0)
    """Bytes of this process and its descendants, after the first tenth and at the end."""
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Of what is unknown."""


def python_job(kind: str, number: int) -> python_pool.Job:
    code = {
        "good": f"def f(n):\n  return n * n + {number}",
        "bad": f"def f(n):\n  return n + {number}",
        "exit": f"import os\ndef f(n):\n  os._exit({number % 3})",
        "crash": f"import ctypes\ndef f(n):\n  ctypes.string_at({number % 7})",
    }[kind]
    return python_pool.Job(code, "function", ("f",), "[[3], [10], [0]]", 1.0, 512 * MIB)


def python_right(kind: str, number: int, ran: Any) -> bool:
    if kind in ("exit", "crash"):
        return ran.outcome in EXPECTED[kind]
    values = [9 + number, 100 + number, number] if kind == "good" else [3 + number, 10 + number, number]
    return ran.outcome == "values" and [value.value for value in ran.values] == values


def ocaml_job(kind: str, number: int) -> ocaml_pool.Job:
    answer = {
        "good": f"let f x = x * x + {number}",
        "bad": f"let f x = if x = 10 then 100 + {number} else x",
        "exit": f"let f x = exit {number % 3}",
        "loop": f"let f x = while x > -{number + 1} do () done; x",
        "types": f'let f x = x ^ {number}\nlet g = "{number}" + 1',
        "syntax": f"let f x = (x + {number}",
        "memory": f"let f x = Array.length (Array.make ({number} + (1 lsl 40)) x)",
    }[kind]
    tests = "" if kind == "types" else f"let () = assert (f 3 = 9 + {number}); assert (f 10 = 100 + {number}); assert (f 0 = {number})"
    return ocaml_pool.Job("", answer, tests, 0.1 if kind == "loop" else 2.0, 512 * MIB)


def ocaml_right(kind: str, number: int, ran: Any) -> bool:
    if ran.outcome not in EXPECTED[kind]:
        return False
    if kind == "types":
        return bool(ran.errors == 2)
    cases = {"good": (True, True, True), "bad": (False, True, number == 0), "memory": (False, False, False)}.get(kind)
    return ran.outcome != "tested" or ran.cases == cases


def check_job(kind: str, number: int) -> ocaml_pool.Job:
    return replace(ocaml_job(kind, number), tests="")


def check_right(kind: str, number: int, ran: Any) -> bool:
    if kind == "types":
        return bool(ran.outcome == "errors" and ran.errors == 2)
    return bool(ran.outcome == {"good": "compiles", "bad": "compiles", "syntax": "syntax"}[kind])


KINDS: dict[str, tuple[Any, Callable[[str, int], Any], Callable[[str, int, Any], bool], list[str]]] = {
    "python": (python_pool.Pool, python_job, python_right, ["good", "good", "bad", "exit", "crash"]),
    "ocaml": (ocaml_pool.Pool, ocaml_job, ocaml_right, ["good"] * 8 + ["bad"] * 4 + ["exit", "types", "types", "syntax", "memory", "loop"]),
    "checks": (ocaml_pool.CheckPool, check_job, check_right, ["good", "good", "bad", "types", "types", "syntax"]),
}


def soak(what: str, jobs: int, tier: Any = None, seed: int = 7) -> Soaked:
    """Run `jobs` distinct jobs. Every fifth batch loses its zygote in the middle, every tenth before it."""
    make_pool, job, right, kinds = KINDS[what]
    pool, generator, found = make_pool(tier, 2), random.Random(seed), Soaked()
    pool.run([job("good", -number) for number in range(100, 100 + 2 * pool.jobs_a_lane)])  # both zygotes
    before, begun, early = descriptors(), time.monotonic(), 0
    for batch, start in enumerate(range(0, jobs, BATCH)):
        asked = [(generator.choice(kinds), number) for number in range(start, min(start + BATCH, jobs))]
        if batch % 10 == 2:
            _kill(generator.choice(pool.zygotes).pid)
            found.killed += 1
        timer = None
        if batch % 5 == 3:
            timer = threading.Timer(
                generator.uniform(0.005, 0.2 if what == "ocaml" else 0.04), _kill, (generator.choice(pool.zygotes).pid,)
            )
            timer.start()
            found.killed += 1
        for (kind, number), ran in zip(asked, pool.run([job(*one) for one in asked]), strict=True):
            found.jobs += 1
            found.outcomes[ran.outcome] += 1
            if ran.outcome == "unknown":
                found.unknown += 1
                found.reasons[ran.reason] += 1
            elif not right(kind, number, ran):
                found.wrong.append((kind, number, ran))
        if timer is not None:
            timer.join()
        if start >= jobs // 10 and not early:
            early = family_bytes()
    found.seconds = time.monotonic() - begun
    pool.run([job("good", -number) for number in range(200, 200 + 2 * pool.jobs_a_lane)])  # they are there, as at the beginning
    found.descriptors, found.zombies, found.memory = (before, descriptors()), zombies(), (early, family_bytes())
    pool.close()
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _processes() -> dict[int, list[str]]:
    """pid -> fields of /proc/<pid>/stat from the state on."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(stat.parent.name)] = stat.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def zombies() -> int:
    """Dead children of this process that nobody has asked about."""
    return sum(fields[0] == "Z" and int(fields[1]) == os.getpid() for fields in _processes().values())


def family_bytes() -> int:
    """Resident bytes of this process and of all that descend from it."""
    running, family = _processes(), {os.getpid()}
    for _ in range(6):
        family |= {pid for pid, fields in running.items() if int(fields[1]) in family}
    return sum(int(running[pid][21]) for pid in family if pid in running) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    what, jobs = (sys.argv[1] if len(sys.argv) > 1 else "ocaml"), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    found = soak(what, jobs)
    verdicts = f"{len(found.wrong)} wrong, {found.unknown} unknown"
    print(f"{what}: {found.jobs} jobs in {found.seconds:.0f} s, {found.killed} zygotes killed: {verdicts}")
    print(f"outcomes: {dict(found.outcomes.most_common())} {dict(found.reasons)}")
    early, late = (size / MIB for size in found.memory)
    print(f"descriptors {found.descriptors[0]} -> {found.descriptors[1]}, zombies {found.zombies}, memory {early:.0f} -> {late:.0f} MiB")
    for one in found.wrong[:10]:
        print(one)
    raise SystemExit(bool(found.wrong) or found.unknown > found.jobs / 1000)


if __name__ == "__main__":
    main()
