"""octavo against calkit (explicit stages) and plain DVC on one experiment of 12, 100, 1,000 and 10,000 runs: check, compile, plan.

Every side has the same stages with the same commands, inputs and outputs, and all of them have run: outputs, dvc.lock and DVC's cache
are there, written with stand-ins. CPU seconds (user and system) and peak memory of whole processes, medians; the ratios are to
octavo's CPU seconds in the same run. A command that needs longer than the limit is shown as such, not extrapolated. calkit lives in a
virtual environment of its own: `make bench-calkit` builds it and runs this. Exits 1 when compiling 1,000 runs is less than 15 times as
fast as calkit's, or when octavo's time grows faster than the number of runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from compile_growth import OCTAVO, new, synthetic  # noqa: E402
from plan import ENVIRONMENT, has_run, parsed  # noqa: E402

TARGET, AT = 15.0, 1000
LINEAR = 1.5
"""Ten times the runs may cost so many times ten times the CPU seconds, beyond those of a start."""


@dataclass(frozen=True)
class Cost:
    wall: float
    cpu: float
    peak: float
    """MB."""


def main() -> int:
    arguments = argparse.ArgumentParser(description="octavo against calkit and plain DVC")
    arguments.add_argument("--calkit", type=Path, required=True, help="calkit's command, in its own virtual environment")
    arguments.add_argument("--sizes", type=int, nargs="+", default=[12, 100, 1000])
    arguments.add_argument("--repeats", type=int, default=3, help="up to 1,000 runs; bigger ones are measured once")
    arguments.add_argument("--limit", type=int, default=300, help="CPU seconds that a command may take")
    options = arguments.parse_args()
    calkit = options.calkit.absolute()
    said = subprocess.run([calkit, "--version"], capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout.strip()
    print(f"calkit {said.split()[-1]}; limit {options.limit} CPU-seconds a command\n")
    print(f"{'runs':>6}  {'work':<8} {'command':<34} {'CPU s':>8} {'wall s':>8} {'MB':>6} {'to octavo':>10}")
    found: dict[tuple[int, str], Cost] = {}
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for runs in options.sizes:
            ours = has_run(synthetic(Path(folder) / "octavo" / str(runs), runs))
            subprocess.run([*OCTAVO, "compile"], cwd=ours, env=ENVIRONMENT, check=True, capture_output=True)  # of what lies there now
            theirs = explicit(ours, Path(folder) / "calkit" / str(runs))
            fresh = partial(new, Path(folder), runs)
            dvc = [sys.executable, "-m", "dvc"]
            for work, sides in {
                "check": [
                    ("octavo check", [*OCTAVO, "check"], ours),
                    ("calkit check pipeline", [calkit, "check", "pipeline"], theirs),
                    ("dvc stage list", [*dvc, "stage", "list", "--all"], ours),
                ],
                "compile": [
                    ("octavo compile, nothing there yet", [*OCTAVO, "compile"], fresh),
                    ("octavo compile, unchanged", [*OCTAVO, "compile"], ours),
                    ("calkit check pipeline --compile", [calkit, "check", "pipeline", "--compile"], theirs),
                ],
                "plan": [
                    ("octavo plan", [*OCTAVO, "plan", "--json"], ours),
                    ("calkit status, pipeline only", [calkit, "status", "-c", "pipeline", "--no-env-check"], theirs),
                    ("dvc status", [*dvc, "status", "--json"], ours),
                    ("dvc repro --dry", [*dvc, "repro", "--dry", "--all-pipelines"], ours),
                ],
            }.items():
                base: Cost | None = None
                for name, command, project in sides:
                    cost = measured(command, project, 1 if runs > AT else options.repeats, options.limit)
                    if cost is None:
                        print(f"{runs:>6}  {work:<8} {name:<34} {'>' + str(options.limit):>8} {'-':>8} {'-':>6} {'-':>10}", flush=True)
                        continue
                    base = base or cost
                    found[runs, name] = cost
                    ratio = f"{cost.cpu / base.cpu:9.1f}x"
                    print(f"{runs:>6}  {work:<8} {name:<34} {cost.cpu:8.2f} {cost.wall:8.2f} {cost.peak:6.0f} {ratio}", flush=True)
    ours_1000, calkit_1000 = (found.get((AT, name)) for name in ("octavo compile, nothing there yet", "calkit check pipeline --compile"))
    if ours_1000 and calkit_1000 and calkit_1000.cpu < TARGET * ours_1000.cpu:
        missed.append(f"compile of {AT} runs: calkit takes {calkit_1000.cpu / ours_1000.cpu:.1f} times ours, wanted {TARGET:.0f}")
    for name in ("octavo check", "octavo compile, nothing there yet", "octavo plan"):
        start, some, many = (found.get((runs, name)) for runs in (12, AT, 10 * AT))
        if start and some and many and many.cpu - start.cpu > LINEAR * 10 * (some.cpu - start.cpu):
            missed.append(f"{name} grows faster than the number of runs")
    for line in missed:
        print(f"MISSED: {line}")
    return 1 if missed else 0


def measured(command: list[str | Path], project: Path | Callable[[], Path], repeats: int, limit: int) -> Cost | None:
    """Cost of a process; None when it needs longer than the limit. `project` is the folder, or makes one for each round, untimed."""
    costs = []
    for round_ in range(repeats + (repeats > 1)):
        folder = project() if callable(project) else project
        began = time.perf_counter()
        with subprocess.Popen(
            ["prlimit", f"--cpu={limit}", *command], cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return None
        assert process.returncode == 0, (command, process.returncode)
        if round_ or repeats == 1:  # with several rounds the first one warms the caches
            costs.append(Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    return Cost(*(statistics.median(getattr(cost, name) for cost in costs) for name in ("wall", "cpu", "peak")))


def explicit(project: Path, target: Path) -> Path:
    """The same project, after the same runs, as calkit sees it: every stage written out in one calkit.yaml, compiled, with its dvc.lock."""
    shutil.copytree(project, target, symlinks=True)
    entries: dict[str, str] = {}
    lines = ["owner: somebody", "name: synthetic", "title: synthetic", "pipeline:", "  stages:"]
    for pipeline in [*sorted(target.glob("runs/**/dvc.yaml")), target / "dvc.yaml"]:
        for name, stage in parsed(pipeline.read_text()).items():
            lines += [f"    {name}:", "      kind: command", "      environment: _system", f"      command: {stage['cmd'][0]}"]
            for key, side in (("inputs", "deps"), ("outputs", "outs")):
                if stage[side]:
                    lines += [f"      {key}:", *(f"      - {path}" for path in stage[side])]
        lock = pipeline.with_name("dvc.lock")
        name = ""
        for line in lock.read_text().splitlines()[2:]:
            if line.startswith("  ") and not line.startswith("   "):
                name = line
            entries[name] = entries.get(name, "") + line + "\n"
        lock.unlink()
        pipeline.unlink()
    (target / "calkit.yaml").write_text("\n".join(lines) + "\n")
    (target / "dvc.lock").write_text("schema: '2.0'\nstages:\n" + "".join(entries.values()))
    return target


if __name__ == "__main__":
    raise SystemExit(main())
