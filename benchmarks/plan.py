"""`octavo plan` against `dvc status` on one synthetic experiment of 12, 100 and 1,000 runs: time, memory, and the same verdicts.

Wall and CPU seconds of whole processes, medians. The experiment has run: every output, dvc.lock and DVC's cache are there, written with
stand-ins for the stages. Three states: nothing changed, one condition's learning rate changed, one output edited by hand. `dvc status` is
run on the compiled files, which `octavo plan` makes itself. Exits 1 if a verdict differs, or if plan takes more than a quarter of the CPU
time of `dvc status` at 100 or 1,000 runs. Most of the time is the compile itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from compile_growth import OCTAVO, synthetic  # noqa: E402

from compiler.lock.files import Files, folder_md5  # noqa: E402

FLOOR = 4.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "", "DVC_NO_ANALYTICS": "1"}
ENVIRONMENT["GIT_CONFIG_GLOBAL"] = os.devnull
FOLDERS = ("adapter", "model", "figures", "page", "site")


def main() -> int:
    arguments = argparse.ArgumentParser(description="octavo plan against dvc status")
    arguments.add_argument("--sizes", type=int, nargs="+", default=[12, 100, 1000])
    arguments.add_argument("--repeats", type=int, default=3)
    options = arguments.parse_args()
    missed = []
    print(
        f"{'runs':>5}  {'state':<28} {'plan s':>8} {'dvc s':>8} {'ratio':>7} {'CPU ratio':>9} {'plan MB':>8} {'dvc MB':>7}  stages to run"
    )
    with tempfile.TemporaryDirectory() as folder:
        for runs in options.sizes:
            project = has_run(synthetic(Path(folder) / str(runs), runs))
            for state, change in STATES.items():
                change(project)
                ours = measured([*OCTAVO, "plan", "--json"], project, options.repeats)
                subprocess.run([*OCTAVO, "compile"], cwd=project, env=ENVIRONMENT, check=True, capture_output=True)
                theirs = measured([sys.executable, "-m", "dvc", "status", "--json"], project, 1 if runs > 500 else options.repeats)
                certain, after = verdicts(json.loads(ours[3]))
                changed = set(json.loads(theirs[3] or "{}"))
                if not certain <= changed <= certain | after:
                    missed.append(f"{runs} runs, {state}: verdicts differ: {sorted(certain ^ changed)[:4]}")
                ratio, cpu = theirs[0] / ours[0], theirs[1] / ours[1]
                numbers = f"{ours[0]:8.2f} {theirs[0]:8.2f} {ratio:6.1f}x {cpu:8.1f}x {ours[2]:8.0f} {theirs[2]:7.0f}"
                print(f"{runs:>5}  {state:<28} {numbers}  {len(certain)}", flush=True)
                if runs >= 100 and cpu < FLOOR:
                    missed.append(f"{runs} runs, {state}: dvc status takes {cpu:.1f} times the CPU, wanted {FLOOR:.0f}")
    for line in missed:
        print(f"MISSED: {line}")
    return 1 if missed else 0


def verdicts(plan: dict) -> tuple[set[str], set[str]]:
    """(stages that certainly run or are put back, stages that may run or read what is put back), as DVC addresses them."""
    stages = [stage for experiment in plan["experiments"] for stage in experiment["stages"]] + plan["shared"]
    names = {f"{stage['pipeline']}:{stage['stage']}".removeprefix("dvc.yaml:"): stage["state"] for stage in stages}
    certain = {name for name, state in names.items() if state in ("runs", "restored")}
    back = "restored" in names.values()
    return certain, {name for name, state in names.items() if state == "may_run" or (back and state == "stays")}


def measured(command: list[str], folder: Path, repeats: int) -> tuple[float, float, float, str]:
    """(wall seconds, CPU seconds, peak MB, output) of a process; medians, after one unmeasured run that warms caches."""
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    wall, cpu, peak, output = [], [], 0.0, ""
    for _ in range(repeats):
        began = time.perf_counter()
        with tempfile.TemporaryFile("w+") as out, subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=out) as process:
            _, code, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(code)
            out.seek(0)
            output = out.read()
        assert process.returncode == 0, command
        wall.append(time.perf_counter() - began)
        cpu.append(usage.ru_utime + usage.ru_stime)
        peak = max(peak, usage.ru_maxrss / 1024)
    return statistics.median(wall), statistics.median(cpu), peak, output


def has_run(project: Path) -> Path:
    """The project as after a `dvc repro`: outputs, locks and cache, in DVC's own formats, without running anything."""
    subprocess.run(["git", "init", "--quiet"], cwd=project, env=ENVIRONMENT, check=True)
    (project / "site").mkdir(parents=True)
    (project / "site/a.txt").write_text("a\n")
    for folder in ("compiler", "stages"):
        shutil.copytree(ROOT / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    (project / ".dvc").mkdir()
    (project / ".dvc/config").write_text("[core]\n    analytics = false\n    autostage = false\n")
    subprocess.run([*OCTAVO, "compile"], cwd=project, env=ENVIRONMENT, check=True, capture_output=True)
    pipelines = [*sorted(project.glob("runs/**/dvc.yaml")), project / "dvc.yaml"]
    files = Files(project, {})
    stages = {pipeline: parsed(pipeline.read_text()) for pipeline in pipelines}
    for outs in (stage["outs"] for by_name in stages.values() for stage in by_name.values()):
        for out in outs:
            written(project, out)
    for pipeline, by_name in stages.items():
        lines = ["schema: '2.0'", "stages:"]
        for name, stage in by_name.items():
            lines += [f"  {name}:", f"    cmd: {stage['cmd'][0]}"]
            for side in ("deps", "outs"):
                if stage[side]:
                    lines += [f"    {side}:", *(line for path in sorted(stage[side]) for line in entry(project, path, files))]
        pipeline.with_name("dvc.lock").write_text("\n".join(lines) + "\n")
    return project


def parsed(text: str) -> dict[str, dict[str, list[str]]]:
    """Stages of a dvc.yaml that the compiler wrote."""
    stages: dict[str, dict[str, list[str]]] = {}
    side = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"  ([A-Za-z0-9_-]+):", line):
            stage = stages[match[1]] = {"cmd": [], "deps": [], "outs": []}
        elif match := re.fullmatch(r"    cmd: (.*)", line):
            stage["cmd"] = [match[1]]
        elif match := re.fullmatch(r"    (deps|outs):", line):
            side = match[1]
        elif match := re.fullmatch(r"    - ([^:]+):?", line):
            stage[side].append(match[1])
    return stages


def written(project: Path, out: str) -> None:
    """An output of some hundred bytes, and its copy in DVC's cache."""
    path = project / out
    if path.name not in FOLDERS:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{out}\n" * 8)
        cached(project, path.read_bytes())
        return
    listing = {}
    for name in ("one.txt", "two.txt"):
        path.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(f"{out} {name}\n" * 8)
        listing[name] = cached(project, (path / name).read_bytes())
    record = json.dumps([{"md5": listing[name], "relpath": name} for name in sorted(listing)], sort_keys=True).encode()
    cached(project, record, ".dir")
    assert folder_md5(listing) == hashlib.md5(record).hexdigest() + ".dir"


def cached(project: Path, content: bytes, suffix: str = "") -> str:
    md5 = hashlib.md5(content).hexdigest()
    target = project / ".dvc/cache/files/md5" / md5[:2] / (md5[2:] + suffix)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        target.write_bytes(content)
        target.chmod(0o444)
    return md5


def entry(project: Path, path: str, files: Files) -> list[str]:
    md5 = files.md5(path)
    assert md5, path
    inside = [file for file in (project / path).rglob("*") if file.is_file()] if (project / path).is_dir() else [project / path]
    lines = [f"    - path: {path}", "      hash: md5", f"      md5: {md5}", f"      size: {sum(file.stat().st_size for file in inside)}"]
    return [*lines, f"      nfiles: {len(inside)}"] if md5.endswith(".dir") else lines


def unchanged(project: Path) -> None:
    pass


def learning_rate(project: Path) -> None:
    path = project / "specs/synthetic.yaml"
    path.write_text(path.read_text().replace("{learning_rate: 2.0e-6}", "{learning_rate: 2.5e-6}"))


def by_hand(project: Path) -> None:
    (project / "runs/synthetic/c0-s1/health.json").write_text("mine\n")


STATES = {"nothing changed": unchanged, "one learning rate": learning_rate, "and one output by hand": by_hand}


if __name__ == "__main__":
    raise SystemExit(main())
