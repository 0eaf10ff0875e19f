"""Other revisions of the project, read through git with fixed arguments and no shell. Names that a user gives are resolved first."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from compiler.problems import Rejected, problem, sentence

_LEFT_OUT = {"runs", "build", "tests", ".cache", ".dvc", ".github", "benchmarks"}


def git(*arguments: str) -> bytes | None:
    """Output of a git command in the working directory; None if it fails or there is no git."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        process = subprocess.run(["git", *arguments], capture_output=True, env=environment, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout if process.returncode == 0 else None


def commit(revision: str) -> str:
    """Full id of a revision such as `main` or `HEAD~3`. Raises Rejected E391."""
    output = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if output is not None:
        return output.decode().strip()
    if shutil.which("git") is None:
        raise Rejected([problem("E391.git")])
    if git("rev-parse", "--is-inside-work-tree"):
        raise Rejected([problem("E391", revision=sentence(revision)[:80])])
    has_repository = any((folder / ".git").exists() for folder in (Path.cwd(), *Path.cwd().parents))
    raise Rejected([problem("E391.trust" if has_repository else "E391.nowhere")])


def commits_of(path: str, limit: int) -> list[str]:
    """Newest commits that touched a path, HEAD first."""
    output = git("log", f"--max-count={limit}", "--format=%H", "HEAD", "--", path)
    return output.decode().split() if output else []


def show(revision: str, path: str) -> str | None:
    """A file's text at a commit; None if it is not there. `path` is relative to the working directory."""
    output = git("cat-file", "blob", f"{revision}:./{path}")
    try:
        return output.decode("utf-8") if output is not None else None
    except UnicodeDecodeError:
        return None


def extract(revision: str, to: Path) -> None:
    """Write the files of a commit, without what is generated and without tests, below `to`."""
    listing = git("ls-tree", "-z", "--name-only", revision, "./") or b""
    names = [name for name in listing.decode("utf-8", "surrogateescape").split("\0") if name and name not in _LEFT_OUT]
    archive = git("archive", "--format=tar", revision, "--", *names) if names else None
    if archive is not None:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(to, filter="data")
