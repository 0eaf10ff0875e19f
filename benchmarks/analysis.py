"""screen, conclude and draw as whole processes: CPU seconds and peak memory against their budgets.

python benchmarks/analysis.py [runs steps metrics]        default: 12 x 300 x 40 (6 s) and 100 x 2,000 x 40 (30 s, 500 MiB)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "stages" / "analyse")]

import synthetic  # noqa: E402

from stages.contracts.artifact import write  # noqa: E402
from stages.contracts.attempt import Outcome  # noqa: E402
from stages.contracts.history import HISTORY_SCHEMA  # noqa: E402

KNOWN = ["reward", "grad_norm", "entropy", "kl", "completion_tokens", "truncated", "zero_signal_share", "group_range", "loss"]
BUDGETS = {(12, 300, 40): "6 s", (100, 2000, 40): "30 s, 500 MiB"}
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of one process."""
    whole = [sys.executable, "-c", MEASURE, *command]
    done = subprocess.run(whole, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.PIPE, text=True)
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)


def workload(root: Path, runs: int, steps: int, metrics: int) -> Path:
    """Runs of four conditions: every metric a random walk, and the completions of the first twenty steps."""
    rng, conditions = np.random.default_rng(0), list(synthetic.GATES)
    chosen_runs = [synthetic.Run(conditions[index % 4], index // 4 + 1, target=steps, steps=20, passed=10) for index in range(runs)]
    folder = synthetic.complete(root, chosen_runs=chosen_runs)
    names = [*KNOWN, *(f"metric_{n}" for n in range(metrics - len(KNOWN)))]
    step = np.repeat(np.arange(1, steps + 1), metrics)
    rows = {"attempt": "a1", "step": step, "tokens": step * 40, "seconds": step * 0.5, "metric": names * steps}
    for run in chosen_runs:
        place = synthetic.ExperimentFolder(root / folder.root).run(run.name)
        walks = 0.5 + 0.001 * rng.standard_normal((steps, metrics)).cumsum(axis=0) + 0.01 * rng.standard_normal((steps, metrics))
        table = pa.Table.from_pandas(pd.DataFrame({**rows, "value": walks.ravel(), "state": "value"}), preserve_index=False)
        metadata = {"octavo.schema": HISTORY_SCHEMA, "octavo.card_id": f"card-{run.name}", "octavo.attempt": "a1"}
        pq.write_table(table.replace_schema_metadata(metadata), place.history)
        write(place.outcome, Outcome(card_id=f"card-{run.name}", attempt="a1", finished=True, steps_done=steps, target_steps=steps))
    return folder.root


def main() -> None:
    asked = tuple(int(word) for word in sys.argv[1:4])
    for size in [asked] if len(asked) == 3 else BUDGETS:
        with tempfile.TemporaryDirectory() as place:
            root = Path(place)
            folder = workload(root, *size)
            print(f"{size[0]} runs x {size[1]} steps x {size[2]} metrics; budget: {BUDGETS.get(size, 'none')}", flush=True)
            total = 0.0
            for stage in ("screen", "conclude", "draw"):
                seconds, peak = measured([sys.executable, "-m", f"stages.analyse.{stage}", str(folder)], root)
                total += seconds
                print(f"  {stage:10} {seconds:6.2f} s  {peak:5.0f} MiB", flush=True)
            print(f"  {'together':10} {total:6.2f} s")
            figures = [*(root / folder / "analysis" / "figures").iterdir()]
            print(f"  figures: {sum(path.stat().st_size for path in figures) / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
