"""screen and conclude on long histories, against reading the same files and against a plain pandas script; growth a run, memory.

    python benchmarks/analysis_large.py [runs steps metrics]        default: 20 and 120 runs of 10,000 steps x 40 metrics

Each number is CPU seconds of a whole process, imports included, and the peak of its memory. `read` only reads the history files with
pyarrow (the columns that analysis needs, text as its codes), `read plainly` without that hint. `pandas` is the script that one would
write: read, pivot, window means a run and metric; of its time the import of pandas is said apart, for the others have none.
A thousand runs are the growth from 20 to 120 runs times 980, added to the 20: only that growth is linear is extrapolated.
`1000 10000 40` measures them whole, on 3.3 GB of disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "stages" / "analyse")]

READ = """
import pathlib, sys
import pyarrow.parquet as pq
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/history.parquet")):
    with pq.ParquetFile(path, read_dictionary=["attempt", "metric", "state"]) as file:
        file.read(columns=["attempt", "step", "metric", "value", "state"], use_threads=False)
"""
PLAIN = """
import pathlib, sys
import pyarrow.parquet as pq
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/history.parquet")):
    with pq.ParquetFile(path) as file:
        file.read(columns=["attempt", "step", "metric", "value", "state"], use_threads=False)
"""
PANDAS = """
import pathlib, sys, pandas
found = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/history.parquet")):
    frame = pandas.read_parquet(path, columns=["step", "metric", "value"])
    wide = frame.pivot_table(index="step", columns="metric", values="value")
    tenth = max(1, len(wide) // 10)
    found[path.parent.name] = (wide.head(tenth).mean(), wide.tail(tenth).mean(), wide.std())
"""


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of one process."""
    code = f"""
import os, resource, subprocess, sys
subprocess.run({command!r}, check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    said = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout
    seconds, peak = said.split()
    return float(seconds), float(peak)


def workload(root: Path, runs: int, steps: int, metrics: int) -> Path:
    """Runs of four conditions with long histories (random walks of their own) and the completions of their first twenty steps."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import synthetic

    from stages.contracts.artifact import write
    from stages.contracts.attempt import Outcome
    from stages.contracts.history import HISTORY_SCHEMA

    rng, names = np.random.default_rng(0), list(synthetic.GATES)
    made = [synthetic.Run(names[index % 4], index // 4 + 1, target=steps, steps=20, passed=10) for index in range(runs)]
    folder = synthetic.complete(root, made=made)
    known = ["reward", "grad_norm", "entropy", "kl", "completion_tokens", "truncated", "zero_signal_share", "group_range", "loss"]
    columns = [*known, *(f"metric_{n}" for n in range(metrics - len(known)))]
    rows = steps * metrics
    text = pa.DictionaryArray.from_arrays
    step = np.tile(np.arange(1, steps + 1), metrics)
    shared = {
        "attempt": text(pa.array(np.zeros(rows, np.int32)), pa.array(["a1"])),
        "step": pa.array(step),
        "tokens": pa.array(step * 40),
        "seconds": pa.array(step * 0.5),
        "metric": text(pa.array(np.repeat(np.arange(metrics, dtype=np.int32), steps)), pa.array(sorted(columns))),
    }
    state = text(pa.array(np.zeros(rows, np.int32)), pa.array(["value"]))
    for run in made:
        place = synthetic.ExperimentFolder(root / folder.root).run(run.name)
        walks = 0.5 + 0.001 * rng.standard_normal((metrics, steps)).cumsum(axis=1) + 0.01 * rng.standard_normal((metrics, steps))
        table = pa.table({**shared, "value": pa.array(walks.ravel()), "state": state})
        plain = {name: table[name].cast(pa.string()) for name in ("attempt", "metric", "state")}
        for name, column in plain.items():
            table = table.set_column(table.column_names.index(name), name, column)
        metadata = {"octavo.schema": HISTORY_SCHEMA, "octavo.card_id": f"card-{run.name}", "octavo.attempt": "a1"}
        pq.write_table(table.replace_schema_metadata(metadata), place.history, compression="zstd")  # as the recorder's
        write(place.outcome, Outcome(card_id=f"card-{run.name}", attempt="a1", finished=True, steps_done=steps, target_steps=steps))
    return folder.root


def main() -> None:
    asked = [int(word) for word in sys.argv[1:4]]
    steps, metrics = (asked[1], asked[2]) if len(asked) == 3 else (10_000, 40)
    counts = [asked[0]] if asked else [20, 120]
    table: dict[str, list[tuple[float, float]]] = {}
    for runs in counts:
        with tempfile.TemporaryDirectory() as place:
            root = Path(place)
            folder = workload(root, runs, steps, metrics)
            floor, _ = measured([sys.executable, "-c", "import pandas"], root)
            size = sum(path.stat().st_size for path in (root / folder).glob("*/history.parquet")) / 2**20
            print(
                f"{runs} runs x {steps} steps x {metrics} metrics, {size:.0f} MiB of histories; import of pandas {floor:.2f} s", flush=True
            )
            for name, command in {
                "read": [sys.executable, "-c", READ, str(folder)],
                "read plainly": [sys.executable, "-c", PLAIN, str(folder)],
                "pandas": [sys.executable, "-c", PANDAS, str(folder)],
                "screen": [sys.executable, "-m", "stages.analyse.screen", str(folder)],
                "conclude": [sys.executable, "-m", "stages.analyse.conclude", str(folder)],
            }.items():
                seconds, peak = measured(command, root)
                table.setdefault(name, []).append((seconds, peak))
                print(f"  {name:12} {seconds:8.2f} s  {peak:6.0f} MiB", flush=True)
    if len(counts) == 2:
        few, many = counts
        for name, ((first, _), (last, _)) in table.items():
            growth = (last - first) / (many - few)
            print(f"{name:12} {growth:.4f} s a run; 1,000 runs about {first + growth * (1000 - few):.0f} s")


if __name__ == "__main__":
    main()
