"""`octavo check` and `compile`: cold start, growth from 12 to 1,000 runs, and parsing against ruamel's round-trip loader.

CPU seconds (user and system) and wall seconds of whole processes, medians. Baselines of the same minutes: a bare
`python -c pass`, and writing the same files without a compiler. Exits 1 when a target is missed: growth no worse than
linear, parsing at least 5 times as fast as ruamel's round-trip loader.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
SIZES = (12, 252, 500, 1000)
OCTAVO = [sys.executable, "-m", "compiler"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
LINEAR = 1.5
"""The second half of the runs may cost this many times the first half (500 to 1,000 against 0 to 500 beyond cold start)."""


def main() -> int:
    arguments = argparse.ArgumentParser(description="octavo check and compile: cold start and growth")
    arguments.add_argument("--repeats", type=int, default=5)
    repeats = arguments.parse_args().repeats
    missed = []
    bare, _ = measured([sys.executable, "-c", "pass"], ROOT, repeats)
    print(f"{'':<34} {'runs':>5} {'CPU s':>8} {'x bare':>7} {'wall s':>8}")
    print(f"{'bare python -c pass':<34} {'':>5} {bare:8.3f} {1:7.1f}")
    cpu_by_command: dict[str, dict[int, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for runs in SIZES:
            project = new(Path(folder), runs)
            subprocess.run([*OCTAVO, "compile"], cwd=project, env=ENVIRONMENT, check=True, capture_output=True)
            for what, command, where in (
                ("check", "check", project),
                ("compile, nothing written yet", "compile", partial(new, Path(folder), runs)),
                ("compile again, unchanged", "compile", project),
            ):
                cpu, wall = measured([*OCTAVO, command], where, repeats)
                cpu_by_command.setdefault(what, {})[runs] = cpu
                print(f"{what:<34} {runs:>5} {cpu:8.3f} {cpu / bare:7.1f} {wall:8.3f}")
        cpu, wall = plain_writing(project)
        print(f"{'writing the same files, no compiler':<34} {1000:>5} {cpu:8.3f} {cpu / bare:7.1f} {wall:8.3f}")
    for what, cpu_by_size in cpu_by_command.items():
        first, second = cpu_by_size[500] - cpu_by_size[12], cpu_by_size[1000] - cpu_by_size[500]
        print(
            f"{what + ', a run':<34} {'':>5} {1000 * (cpu_by_size[1000] - cpu_by_size[12]) / 988:7.3f}ms  second half x{second / first:.2f}"
        )
        if second > LINEAR * first * 500 / 488 and second - first > 0.1:
            missed.append(f"{what} grows faster than the number of runs")
    ours, theirs = parsing()
    print(f"{'YAML with places, 10,000 lines':<34} {'':>5} {ours:8.3f}")
    print(f"{'  ruamel round-trip load':<34} {'':>5} {theirs:8.3f}  {theirs / ours:.1f} times ours")
    if theirs < 5 * ours:
        missed.append("parsing is less than 5 times as fast as ruamel's round-trip loader")
    for line in missed:
        print(f"MISSED: {line}")
    return 1 if missed else 0


def measured(command: list[str], project: Path | Callable[[], Path], repeats: int) -> tuple[float, float]:
    """Median (CPU, wall) seconds of a process. `project` is the folder, or makes one for each round, untimed."""
    cpu, wall = [], []
    for _ in range(repeats):
        folder = project() if callable(project) else project
        began, used = time.perf_counter(), children()
        subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall.append(time.perf_counter() - began)
        cpu.append(children() - used)
    return statistics.median(cpu), statistics.median(wall)


def children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def synthetic(folder: Path, runs: int) -> Path:
    """A project whose one experiment has N runs: conditions that each change the learning rate, four seeds each, or ten where
    a spec holds no more conditions."""
    (folder / "specs" / "_models").mkdir(parents=True)
    shutil.copytree(ROOT / "data/quickstart", folder / "data/quickstart")
    for name in ("constraints.txt", "specs/_models/tiny.yaml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "specs/pipeline.yaml").write_text("- synthetic\n")
    text = (ROOT / "specs/quickstart.yaml").read_text(encoding="utf-8")
    head, rest = text.split("conditions:\n", 1)
    rest = rest[rest.index("\npreflight:") : rest.index("\nclaims:")]
    count = min(runs // 4, 1000)
    seeds = list(range(1, runs // count + 1))
    conditions = "".join(
        f"  c{number}: {{reward: shaped, role: treatment, train: {{learning_rate: {number + 1}.0e-6}}}}\n" for number in range(count)
    )
    spec = head.replace("seeds: [1, 2, 3]", f"seeds: {seeds}") + "conditions:\n" + conditions + rest + "\n"
    (folder / "specs/synthetic.yaml").write_text(spec, encoding="utf-8")
    return folder


def new(folder: Path, runs: int) -> Path:
    """A project in which nothing was ever compiled. Projects are never cleaned and used again, nor removed before the end: ext4 does not
    give out an inode that was freed in the last minutes, and looking for another one takes longer than all of the compile."""
    return synthetic(folder / f"{runs}-{len(list(folder.glob(f'{runs}-*')))}", runs)


def plain_writing(project: Path) -> tuple[float, float]:
    """(CPU, wall) seconds for writing what the compiler wrote, file by file, into a new folder."""
    texts = {path.relative_to(project): path.read_bytes() for path in (project / "runs").rglob("*") if path.is_file()}
    target = project / "again"
    began, used = time.perf_counter(), time.process_time()
    for path, content in texts.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(content)
    return time.process_time() - used, time.perf_counter() - began


def parsing() -> tuple[float, float]:
    """CPU seconds for a file of 10,000 lines: our tree with places, and ruamel's round-trip loader."""
    sys.path.insert(0, str(ROOT))
    from ruamel.yaml import YAML

    from compiler.document.read import parse

    text = "".join(f"key{number}: {{name: n{number}, value: {number}, list: [a, b, 1.5]}}\n" for number in range(10_000))
    began = time.process_time()
    parse(text.encode(), "big.yaml")
    ours = time.process_time() - began
    began = time.process_time()
    YAML().load(text)
    return ours, time.process_time() - began


if __name__ == "__main__":
    raise SystemExit(main())
