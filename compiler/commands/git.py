"""Other revisions of the project, read through git with fixed arguments and no shell. Names that a user gives are resolved first."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from compiler.problems import Rejected, problem, sentence
from stages.contracts.files import GIT

_LEFT_OUT = {"runs", "build", "tests", ".cache", ".dvc", ".github", "benchmarks"}


def git(*arguments: str, input: bytes = b"") -> bytes | None:
    """Output of a git command in the working directory; None if it fails or there is no git."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        process = subprocess.run([*GIT, *arguments], capture_output=True, env=environment, input=input, timeout=60)
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


def contents(names: Sequence[str]) -> list[str | None]:
    """Texts of objects such as `HEAD:./specs/a.yaml`, or of ids of files, read by one process; None for what is not there or no text."""
    stream = io.BytesIO(git("cat-file", "--batch", input="".join(f"{name}\n" for name in names).encode()) or b"")
    texts: list[str | None] = []
    for _ in names:
        words = stream.readline().split()
        content = stream.read(int(words[2]) + 1)[:-1] if len(words) == 3 and words[1] == b"blob" else None
        try:
            texts.append(content.decode("utf-8") if content is not None else None)
        except UnicodeDecodeError:
            texts.append(None)
    return texts


def older_contents(paths: Sequence[str], commits: int) -> list[tuple[str, str]]:
    """(path, text) of each of these files after each of the newest commits that changed one of them, newest first."""
    words = ("log", "--format=", "--raw", "-z", "--no-abbrev", "--no-renames", "--relative", f"--max-count={commits}", "HEAD", "--")
    fields = (git(*words, *paths) or b"").decode("utf-8", "replace").strip("\0").split("\0")
    entries = [(path, entry.split()[3]) for entry, path in zip(fields[::2], fields[1::2], strict=False)]
    texts = contents([blob for _, blob in entries]) if entries else []
    return [(path, text) for (path, _), text in zip(entries, texts, strict=True) if text is not None]


def extract(revision: str, to: Path) -> None:
    """Write the files of a commit, without what is generated, tests and links, below `to`."""
    listing = git("ls-tree", "-z", "--name-only", revision, "./") or b""
    names = [name for name in listing.decode("utf-8", "surrogateescape").split("\0") if name and name not in _LEFT_OUT]
    archive = git("archive", "--format=tar", revision, "--", *names) if names else None
    if archive is not None:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(to, [member for member in tar if member.isfile() or member.isdir()], filter="data")
