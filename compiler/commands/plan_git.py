"""Other revisions of the project, read through git with fixed arguments and no shell. Names that a user gives are resolved first."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from compiler.problems import Rejected, sentence
from stages.contracts.diagnostic import Diagnostic

_LEFT_OUT = {"runs", "build", "tests", ".cache", ".dvc", ".github", "benchmarks"}
COMMITS = 40
"""How far back older code and older cards are looked for."""


def git(*arguments: str) -> bytes | None:
    """Output of a git command in the working directory; None when it fails or there is no git."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        found = subprocess.run(["git", *arguments], capture_output=True, env=environment, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout if found.returncode == 0 else None


def no_git(code: str, why: str) -> Diagnostic:
    """Of a command that needs git where there is none."""
    return Diagnostic(code, "git is not installed", why=why, fix="apt-get install git")


def commit(revision: str) -> str:
    """Full id of a revision such as `main` or `HEAD~3`. Raises Rejected E391."""
    found = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if found is not None:
        return found.decode().strip()
    if shutil.which("git") is None:
        raise Rejected([no_git("E391", "`--base` names a branch, tag or commit that git knows, to compare the specs with")])
    inside = git("rev-parse", "--is-inside-work-tree")
    if not inside and any((folder / ".git").exists() for folder in (Path.cwd(), *Path.cwd().parents)):
        raise Rejected(
            [
                Diagnostic(
                    "E391",
                    "git does not answer in this folder: the repository belongs to another user, or is broken",
                    why="`--base` names a branch, tag or commit that git knows, to compare the specs with",
                    fix='git status says why; for a folder of another user: git config --global --add safe.directory "$PWD"',
                )
            ]
        )
    raise Rejected(
        [
            Diagnostic(
                "E391",
                f"no revision `{sentence(revision)[:80]}`" if inside else "this folder is in no git repository",
                why="`--base` names a branch, tag or commit that git knows, to compare the specs with",
                fix="git fetch origin main, then octavo plan --base origin/main" if inside else "octavo plan, without --base",
            )
        ]
    )


def commits_of(path: str, limit: int = COMMITS) -> list[str]:
    """Newest commits that touched a path, HEAD first."""
    found = git("log", f"--max-count={limit}", "--format=%H", "HEAD", "--", path)
    return found.decode().split() if found else []


def show(revision: str, path: str) -> str | None:
    """A file's text at a commit; None when it is not there. `path` is relative to the working directory."""
    found = git("cat-file", "blob", f"{revision}:./{path}")
    try:
        return found.decode("utf-8") if found is not None else None
    except UnicodeDecodeError:
        return None


def extract(revision: str, to: Path, only: str | None = None) -> bool:
    """Write the files of a commit, without what is generated and without tests, below `to`. False when there are none."""
    names = [only] if only else _top_level(revision)
    archive = git("archive", "--format=tar", revision, "--", *names) if names else None
    if archive is None:
        return False
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(to, filter="data")
    return True


def _top_level(revision: str) -> list[str]:
    found = git("ls-tree", "-z", "--name-only", revision, "./")
    names = found.decode("utf-8", "surrogateescape").split("\0") if found else []
    return [name for name in names if name and name not in _LEFT_OUT]
