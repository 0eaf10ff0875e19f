"""A small project that DVC has run with stand-ins for the stages: each writes bytes that depend on all it reads, in milliseconds."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.build.inputs import Inputs
from compiler.commands.plan import plan
from compiler.commands.plan_report import Plan
from stages.contracts.artifact import write
from stages.contracts.code import OTHER_VERSIONS, VERSIONS
from stages.contracts.finding import Findings, Verdict

ROOT = Path(__file__).parents[2]
PROJECT = Path(__file__).parent / "project"
FOLDERS = {"adapter", "model", "figures", "page", "site"}
ENVIRONMENT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "DVC_NO_ANALYTICS": "1"}


def lay_out(root: Path) -> None:
    """The files that people write, in a git repository, with this repository's stages; nothing compiled, nothing run."""
    shutil.copytree(PROJECT, root, dirs_exist_ok=True)
    shutil.copytree(ROOT / "stages", root / "stages", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "specs/example.md").write_text("What we think of it.\n")
    (root / "site/docs").mkdir(parents=True)
    (root / "site/docs/index.md").write_text("# Site\n")
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\n    analytics = false\n    autostage = false\n")
    shutil.copy(ROOT / ".gitignore", root / ".gitignore")
    shutil.copy(os.environ[OTHER_VERSIONS], root / VERSIONS)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "config", "user.name", "t")
    commit(root, "start")


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, env={**os.environ, **ENVIRONMENT}, check=True, capture_output=True, text=True)
    return done.stdout


def commit(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "--quiet", "--message", message)


@contextmanager
def inside(root: Path) -> Iterator[pytest.MonkeyPatch]:
    """The working directory and the code that is hashed are the project's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for module in ("compiler.build.inputs", "compiler.commands.plan", "compiler.commands.stand_ins"):
            patch.setattr(f"{module}.ROOT", root)
        patch.delenv(OTHER_VERSIONS)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("DVC_SITE_CACHE_DIR", str(root.parent / "dvc-site-cache"))
        yield patch


def judge_code(why: str = "edited") -> None:
    """The working directory's code gives new results."""
    assert main(["code", "new", "--why", why]) == 0


def planned(*names: str, base: str | None = None) -> Plan:
    """The plan of the working directory."""
    return plan(names, Inputs(), base)


def states(plan: Plan) -> dict[str, str]:
    """Stage as DVC addresses it -> state."""
    return {stage.stage if stage.pipeline == "dvc.yaml" else f"{stage.pipeline}:{stage.stage}": stage.state for stage in plan.stages}


def compiles() -> None:
    assert main(["compile"]) == 0


def status() -> set[str]:
    """Stages that `dvc status` calls changed."""
    from dvc.repo import Repo

    with Repo(".") as repo:
        return set(repo.status())


def repro(patch: pytest.MonkeyPatch) -> set[str]:
    """Run DVC's own `repro` with the stand-ins; the stages whose command was started."""
    from dvc.repo import Repo

    started: set[str] = set()

    def run(stage, dry=False, run_env=None):
        started.add(stage.addressing)
        stand_in([Path(dep.def_path) for dep in stage.deps], [Path(out.def_path) for out in stage.outs])

    patch.setattr("dvc.stage.run.cmd_run", run)
    with Repo(".") as repo:
        repo.reproduce(all_pipelines=True)
    return started


def stand_in(deps: list[Path], outs: list[Path]) -> None:
    """Write outputs that differ whenever an input does. A permission stays the same, as it mostly does."""
    read = hashlib.sha256()
    for dep in deps:
        files = sorted(path for path in dep.rglob("*") if path.is_file()) if dep.is_dir() else [dep]
        for file in files:
            read.update(file.as_posix().encode() + b"\0" + file.read_bytes())
    digest = read.hexdigest()
    for out in outs:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.name in FOLDERS:
            out.mkdir(exist_ok=True)
            (out / "one.txt").write_text(f"{out} {digest}\n")
            (out / "two").mkdir(exist_ok=True)
            (out / "two/b.txt").write_text("always the same\n")
        elif out.name == "findings.json":
            verdict = Verdict(claim="shaped-teaches", verdict="supported", why=".", finding=None, direction="above", margin=0.05)
            write(out, Findings(card_id=digest[:16], experiment="example", claims_tested=1, findings=(), verdicts=(verdict,)))
        else:
            out.write_text("{}\n" if out.name.endswith("permission.json") else f"{out} {digest}\n")
        if out.name == "outcome.json":
            ledger(out.with_name("attempts.jsonl"), seconds=24.0 if out.parent.name.endswith("-s1") else 12.0)


def ledger(path: Path, seconds: float, outcome: str = "finished", devices: tuple[str, ...] = ("cpu",)) -> None:
    """Append one attempt of 12 steps."""
    number = len(path.read_text().splitlines()) // 2 + 1 if path.exists() else 1
    name, at = f"{path.parent.name}-a{number}", "2026-01-01T00:00:00Z"
    head = git(Path(), "rev-parse", "--short=12", "HEAD").strip()
    card = hashlib.sha256(path.with_name("train.card.json").read_bytes()).hexdigest()[:16]
    started = {"event": "started", "attempt": name, "number": number, "at": at, "card_id": card, "commit": head}
    started |= {"host": "test", "devices": devices, "versions": {}, "sandbox": "none", "resumed_from": None}
    ended = {"event": "ended", "attempt": name, "at": at, "outcome": outcome, "last_step": 12, "seconds": seconds}
    with path.open("a") as stream:
        stream.write(json.dumps(started) + "\n" + json.dumps(ended) + "\n")


def edit(path: str, old: str, new: str, count: int = 1) -> None:
    """Replace text that occurs `count` times."""
    text = Path(path).read_text()
    assert text.count(old) == count, f"{old!r} occurs {text.count(old)} times in {path}"
    Path(path).write_text(text.replace(old, new))
