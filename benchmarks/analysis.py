"""Whole processes of screen, conclude and draw on 12 runs x 300 steps x 40 metrics, against importing pandas in the same minute.

    python benchmarks/analysis.py [runs steps metrics]

Target: pandas import + 0.5 s a process. Prints CPU seconds, the excess over the import, and the ratio to it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "stages" / "analyse"))

import synthetic  # noqa: E402

REPEATS = 5


def workload(root: Path, runs: int, steps: int, metrics: int) -> Path:
    """An experiment of four conditions; every metric a random walk, so that nothing is constant and nothing compresses away."""
    rng = np.random.default_rng(0)
    names = list(synthetic.GATES)
    made = []
    for index in range(runs):
        condition = names[index % len(names)]
        run = synthetic.Run(condition, index // len(names) + 1, target=steps, steps=steps, passed=int(rng.integers(0, 21)))
        derived = 10 + len(synthetic.GATES[condition])
        walks = 1 + 0.01 * rng.standard_normal((max(0, metrics - derived), steps)).cumsum(axis=1)
        run.cells = {f"metric_{n}": dict(zip(range(1, steps + 1), walk.tolist(), strict=True)) for n, walk in enumerate(walks)}
        made.append(run)
    return synthetic.complete(root, made=made).root


def cpu_seconds(command: list[str], folder: Path) -> float:
    """User and system seconds of a process and its children, median of several."""
    found = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


def main() -> None:
    runs, steps, metrics = (int(word) for word in sys.argv[1:4]) if len(sys.argv) == 4 else (12, 300, 40)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        folder = workload(root, runs, steps, metrics)
        floor = cpu_seconds([sys.executable, "-c", "import pandas"], root)
        print(f"{runs} runs x {steps} steps x {metrics} metrics; CPU seconds, median of {REPEATS}")
        print(f"{'import pandas':24} {floor:6.2f}")
        for stage in ("screen", "conclude", "draw"):
            took = cpu_seconds([sys.executable, "-m", f"stages.analyse.{stage}", str(folder)], root)
            print(f"{stage:24} {took:6.2f}   import {took - floor:+.2f} s   x{took / floor:.2f}")


if __name__ == "__main__":
    main()
