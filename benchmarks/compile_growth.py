"""`octavo check` and `compile`: cold start, growth from 12 to 1,000 runs, and parsing against ruamel's round-trip loader.

Wall seconds of whole processes, medians; the anchor of cold start is a bare `python -c pass` of the same interpreter, measured
in between. Prints a table; exits 1 when growth is worse than linear or a target of the performance page is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPEATS = 5
SIZES = (12, 120, 1000)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=REPEATS)
    repeats = arguments.parse_args().repeats
    bare = measured([sys.executable, "-c", "pass"], ROOT, repeats)
    print(f"{'bare python -c pass':<44} {bare:7.3f} s")
    found: dict[str, dict[int, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for runs in SIZES:
            project = synthetic(Path(folder) / str(runs), runs)
            octavo = [sys.executable, "-m", "compiler"]
            rows = {
                "check": measured([*octavo, "check", "synthetic"], project, repeats),
                "compile, nothing written yet": measured([*octavo, "compile"], project, repeats, before=lambda p=project: clean(p)),
                "compile again, unchanged": measured([*octavo, "compile"], project, repeats),
            }
            for what, seconds in rows.items():
                found.setdefault(what, {})[runs] = seconds
                print(f"{what + f', {runs} runs':<44} {seconds:7.3f} s {seconds / bare:7.1f} x bare Python")
    missed = []
    for what, by_size in found.items():
        per_run = (by_size[1000] - by_size[12]) / 988
        early = max(1e-9, (by_size[120] - by_size[12]) / 108)
        print(f"{what + ': seconds a run':<44} {per_run * 1000:7.3f} ms (12 to 120: {early * 1000:.3f} ms)")
        if by_size[1000] - by_size[12] > 3 * 988 * max(early, 1e-4):
            missed.append(f"{what} grows faster than the number of runs")
    ours, theirs = parsing()
    print(f"{'YAML with positions, 10,000 lines: ours':<44} {ours:7.3f} s")
    print(f"{'  ruamel round-trip load':<44} {theirs:7.3f} s {theirs / ours:7.1f} x ours (target 5)")
    if theirs < 5 * ours:
        missed.append("parsing is less than 5 times as fast as ruamel's round-trip loader")
    for line in missed:
        print(f"MISSED: {line}")
    return 1 if missed else 0


def measured(command: list[str], folder: Path, repeats: int, before: object = None) -> float:
    """Median wall seconds of a process. `before` runs untimed before each."""
    seconds = []
    for _ in range(repeats):
        if callable(before):
            before()
        began = time.perf_counter()
        subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def synthetic(folder: Path, runs: int) -> Path:
    """A project whose one experiment has so many runs: conditions that each change the learning rate, four seeds each."""
    folder.mkdir(parents=True)
    for name in ("data", "constraints.txt"):
        source = ROOT / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy(source, folder / name)
    (folder / "specs" / "_models").mkdir(parents=True)
    shutil.copy(ROOT / "specs/_models/tiny.yaml", folder / "specs/_models/tiny.yaml")
    (folder / "specs/pipeline.yaml").write_text("- synthetic\n")
    text = (ROOT / "specs/quickstart.yaml").read_text()
    head, rest = text.split("conditions:\n", 1)
    rest = rest[rest.index("\npreflight:") :]
    rest = rest[: rest.index("\nclaims:")] + "\n"
    conditions = "".join(
        f"  c{number}: {{reward: shaped, role: treatment, train: {{learning_rate: {number + 1}.0e-6}}}}\n" for number in range(runs // 4)
    )
    spec = head.replace("seeds: [1, 2, 3]", "seeds: [1, 2, 3, 4]") + "conditions:\n" + conditions + rest
    (folder / "specs/synthetic.yaml").write_text(spec)
    return folder


def clean(folder: Path) -> None:
    shutil.rmtree(folder / "runs", ignore_errors=True)
    (folder / "dvc.yaml").unlink(missing_ok=True)


def parsing() -> tuple[float, float]:
    """CPU seconds for a file of 10,000 lines: our tree with positions, and ruamel's round-trip loader."""
    sys.path.insert(0, str(ROOT))
    from ruamel.yaml import YAML

    from compiler.source import parse

    text = "".join(f"key{number}: {{name: n{number}, value: {number}, list: [a, b, 1.5]}}\n" for number in range(10_000))
    began = time.process_time()
    parse(text.encode(), "big.yaml")
    ours = time.process_time() - began
    began = time.process_time()
    YAML().load(text)
    return ours, time.process_time() - began


if __name__ == "__main__":
    raise SystemExit(main())
