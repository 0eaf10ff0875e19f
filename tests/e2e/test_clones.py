"""The guide's recipe without a shared folder: clones that share a git remote and a DVC remote, and nothing else."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

from project import ROOT, Project

SCRIPTS = ROOT / "site/docs/guide/clones"
PEOPLE = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
NEW = ("shaped-s4", "zero-s4")


def clone(hub: Path, to: Path) -> Project:
    subprocess.run(["git", "clone", "--quiet", hub, to], check=True)
    return Project(to)


def start(worker: Project, run: str, path: str) -> subprocess.Popen[str]:
    command = ["bash", str(SCRIPTS / "train.sh"), "small", run]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, cwd=worker.root, env=worker.environment(PATH=path), text=True, **pipes)


def finish(process: subprocess.Popen[str], code: int = 0) -> None:
    output, _ = process.communicate(timeout=540)
    assert (process.returncode == 0) == (code == 0), output


def test_runs_of_clones_come_together_as_if_one_machine_had_trained_them(project, tmp_path):
    own = tmp_path / "bin"
    own.mkdir()
    (own / "octavo").write_text('#!/bin/sh\nexec python -m compiler "$@"\n')  # the project's own code, and not that of this checkout
    (own / "octavo").chmod(0o755)
    path = f"{own}:{project.environment()['PATH']}"
    shutil.copy2(ROOT / ".gitattributes", project.root)
    project.edit("seeds: [1, 2, 3]", "seeds: [1, 2, 3, 4]")
    project.octavo("compile")
    project.call("dvc", "remote", "add", "--default", "store", str(tmp_path / "store"))
    project.call("dvc", "push", "--quiet")
    project.call("git", "add", "--all")
    project.call("git", *PEOPLE, "commit", "--quiet", "--message", "a fourth seed")
    subprocess.run(["git", "clone", "--quiet", "--bare", project.root, tmp_path / "hub"], check=True)

    workers = {run: clone(tmp_path / "hub", tmp_path / run) for run in NEW}
    processes = {run: start(worker, run, path) for run, worker in workers.items()}
    stopped = workers["zero-s4"].run("zero-s4").attempts
    while not stopped.exists() and processes["zero-s4"].poll() is None:
        time.sleep(0.02)
    processes["zero-s4"].send_signal(signal.SIGTERM)  # as a machine that is taken away
    finish(processes["shaped-s4"])
    finish(processes["zero-s4"], code=1)
    head = clone(tmp_path / "hub", tmp_path / "head")
    for key, value in (("user.name", "t"), ("user.email", "t@example.invalid")):
        head.call("git", "config", key, value)
    collect = ("bash", str(SCRIPTS / "collect.sh"), "small")
    assert "not there: zero-s4" in head.call(*collect, ok=False, PATH=path), "a run that nobody has finished is not trained here"

    other = clone(tmp_path / "hub", tmp_path / "other")
    finish(start(other, "zero-s4", path))
    assert [attempt.state for attempt in other.attempts("zero-s4")] == ["failed", "finished"]
    output = head.call(*collect, PATH=path)
    assert "stages.train.trl" not in output and "8 of 8 runs are included" in output
    assert head.counts() == {**project.counts(), "shaped-s4": 1, "zero-s4": 2}
    assert "Data and pipelines are up to date" in head.call("dvc", "status", "runs/small/dvc.yaml")
