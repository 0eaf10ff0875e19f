"""`octavo run`: what 1,000 runs cost before the first one begins, and to look at; and the wall time of runs side by side.

Part one: one synthetic experiment whose runs are all due. Submitting is all that `octavo run` does before it starts a worker: compile,
plan, copy the code, write the tasks. Then a log and a state for each run, and `octavo jobs`. Whole processes, medians. Exits 1 over 2 s
of CPU time for submitting, or 1 s for the table.

Part two: a program that sleeps, run by `octavo run` on slots and by `dvc repro`, from training to page. The ideal is the runs' own time
divided by the slots.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "tests/e2e")]

import plan as planned  # noqa: E402
from compile_growth import OCTAVO, synthetic  # noqa: E402
from side_by_side import make  # noqa: E402

from compiler.running.batch import newest  # noqa: E402
from stages.contracts.dvc_lock import HEAD, read_lock  # noqa: E402

SUBMIT_SECONDS, TABLE_SECONDS = 2.0, 1.0
SUBMIT = """
from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.running.launch import batches
from compiler.running.tasks import due
references = [named("synthetic")]
work = due(references, Inputs())
work.require_compiled(["synthetic"])
assert not work.before
print(sum(len(batch.tasks) for batch in batches(work, "local")))
"""
STEP = {"progress": "synthetic", "attempt": 1, "step": 70, "steps": 300, "reward": 0.42, "seconds_left": 1234.5, "gates": {"tests": 0.5}}


def main() -> int:
    arguments = argparse.ArgumentParser(description="octavo run: submitting, the table, and runs side by side")
    arguments.add_argument("--runs", type=int, default=1000)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=10.0, help="of one of the six runs of part two")
    arguments.add_argument("--slots", type=int, default=3)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        missed = look(Path(folder) / "many", options.runs, options.repeats)
        compare(Path(folder), options.seconds, options.slots)
    return int(missed)


def look(folder: Path, runs: int, repeats: int) -> bool:
    """Part one. True when a limit is missed."""
    project = planned.has_run(synthetic(folder, runs))
    path = project / "runs/synthetic/dvc.lock"
    path.write_text(HEAD + "".join(stage.text for name, stage in read_lock(path).items() if not name.startswith("train-")))
    wall, cpu, peak, count = planned.measured([sys.executable, "-c", SUBMIT], project, repeats)
    assert int(count) == runs
    print(f"submit {runs} runs: {wall:.2f} s, {cpu:.2f} s of CPU, {peak:.0f} MB")
    os.chdir(project)
    batch = newest("synthetic")
    state = {"schema": "octavo.worker/1", "pid": os.getpid(), "created": 0.0, "host": "elsewhere", "job": "1", "devices": "0"}
    state |= {"began": "2026-01-01T00:00:00Z", "step": "train-c0-s1"}
    for task in batch.tasks:
        batch.state(task.run).write_text(json.dumps(state))
        batch.log(task.run).write_text("".join(json.dumps({**STEP, "step": step}) + "\n" for step in range(1, 71)))
    os.chdir(ROOT)
    shown = planned.measured([*OCTAVO, "jobs", "synthetic"], project, repeats)
    assert shown[3].count("70/300") == runs
    print(f"octavo jobs of {runs} runs: {shown[0]:.2f} s, {shown[1]:.2f} s of CPU, {shown[2]:.0f} MB")
    return cpu > SUBMIT_SECONDS or shown[1] > TABLE_SECONDS


def compare(folder: Path, seconds: float, slots: int) -> None:
    """Part two."""
    times = {}
    for name in ("run", "repro"):
        few = make(folder / name, seconds / 20)
        (few.root / "specs/machines.yaml").write_text(f"box: {{slots: {slots}}}\n")
        begun, before = time.monotonic(), os.times()
        few.call(*(("compiler", "run", "few", "--on", "box") if name == "run" else ("dvc", "repro", "runs/few/dvc.yaml")))
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        times[name] = time.monotonic() - begun
        print(f"6 runs of {seconds:.0f} s, {name}: {times[name]:.0f} s, {used:.0f} s of CPU")
    ideal = math.ceil(6 / slots) * seconds
    print(
        f"ideal on {slots} slots: {ideal:.0f} s; octavo run takes {times['run'] / ideal:.2f} of it, dvc repro {times['repro'] / ideal:.2f}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
