"""A project for `octavo run`: six runs of a program that sleeps, with DVC and git."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from stages.contracts.artifact import digest
from stages.contracts.attempt import read_attempts
from stages.contracts.dvc_lock import Lock, read_lock

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "program"
WAITS = """\
        while step == 5 and Path("hold").exists():
            time.sleep(0.05)
"""
"""A run waits at its fifth step while the project holds this file: what a test does meanwhile hangs on no clock."""
RUNS = [f"{condition}-s{seed}" for condition in ("gains", "zero") for seed in (1, 2, 3)]


@dataclass(frozen=True)
class Few:
    """The project `few`, and what a user types in it."""

    root: Path

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DVC_", "OCTAVO_RUN", "PYTEST_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        own = {"OCTAVO_SLOTS": f"{self.root}/slots", "DVC_SITE_CACHE_DIR": f"{self.root}/site-cache", "DVC_NO_ANALYTICS": "1"}
        return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", **own}

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen([sys.executable, "-m", *words], cwd=self.root, env=self.environment(), text=True, **pipes)

    def call(self, *words: str, code: int | None = 0) -> str:
        process = self.start(*words)
        output, _ = process.communicate()
        assert code in (None, process.returncode), f"{' '.join(words)} -> {process.returncode}\n{output}"
        return output

    def octavo(self, *words: str, code: int = 0) -> str:
        return self.call("compiler", *words, code=code)

    def ends(self) -> dict[str, list[str]]:
        """Run -> how each of its attempts ended."""
        ledgers = {path.parent.name: read_attempts(path) for path in self.root.glob("runs/few/*/attempts.jsonl")}
        return {
            run: [(each.ended.failure or each.ended.outcome) if each.ended else "killed" for each in attempts]
            for run, attempts in ledgers.items()
        }

    def state(self, run: str) -> dict[str, Any]:
        """What the worker of a run wrote; {} before it has begun."""
        path = self.root / f".cache/jobs/few/{run}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def start_and_hold(self, *runs: str) -> subprocess.Popen[str]:
        """`octavo run` on the machine `box`, when these runs wait at their fifth step."""
        (self.root / "hold").touch()
        process = self.start("compiler", "run", "few", "--on", "box")
        wait_for(lambda: all(self.steps(run) == 5 for run in runs))
        return process

    def release(self) -> None:
        """Runs go on."""
        (self.root / "hold").unlink()

    def processes(self) -> list[psutil.Process]:
        """Stages and workers of this project that are alive."""
        own = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = " ".join(process.cmdline())
                if process.cwd() == str(self.root) and any(part in words for part in ("stages.train", "running.worker", "train.py")):
                    own.append(process)
        return own

    def steps(self, run: str) -> int:
        """Steps that the program of a run has logged so far."""
        card = digest((self.root / f"runs/few/{run}/import.card.json").read_bytes())[:16]
        log = self.root / f".cache/checkpoints/{card}/out/log.jsonl"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def lock(self) -> Lock:
        return read_lock(self.root / "runs/few/dvc.lock")

    def require_whole(self) -> None:
        """All is up to date for DVC, nothing runs again, and octavo finds nothing wrong."""
        assert "up to date" in self.call("dvc", "status", "runs/few/dvc.yaml")
        assert "Running stage" not in self.call("dvc", "repro", "runs/few/dvc.yaml")
        self.octavo("verify", "few")


def make(root: Path, seconds: float) -> Few:
    """Compiled and committed. `seconds`: how long each of a run's 20 steps takes."""
    for name in ("compiler", "stages", "site", ".dvc"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "cache", "tmp"))
    for name in ("constraints.txt", ".gitignore", ".dvcignore"):
        shutil.copy2(ROOT / name, root / name)
    (root / "train.py").write_text((PROGRAM / "train.py").read_text() + WAITS)
    (root / "specs").mkdir()
    settings = f"settings: {{gain: 0.02, seconds: {seconds}}}"
    text = (PROGRAM / "spec.yaml").read_text().replace("settings: {gain: 0.02}", settings)
    (root / "specs/few.yaml").write_text(text.replace("{gain: 0.0}", f"{{gain: 0.0, seconds: {seconds}}}"))
    (root / "specs/pipeline.yaml").write_text("- few\n")
    (root / "specs/machines.yaml").write_text("box: {slots: 3}\n")

    few = Few(root)
    _git(root, "init", "--quiet", "--initial-branch=main")

    few.octavo("compile")
    _git(root, "add", "--all")
    _git(root, "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "--quiet", "--message", "few")
    return few


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    """Poll until it holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.1)


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
