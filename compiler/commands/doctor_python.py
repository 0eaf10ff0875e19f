"""What `octavo doctor` asks of the Python environment: versions, and that commands started by DVC meet the same one."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from compiler.commands.doctor import Line

CONSTRAINTS = Path("constraints.txt")
OLDEST = (3, 11)
_PIN = re.compile(r"\s*([A-Za-z0-9._-]+)\s*==\s*([^\s;#]+)")
_INSTALL = "pip install -c constraints.txt -e ."


def checks() -> Iterator[Line]:
    """Python, libraries, the commands `dvc` and `python` on PATH, Weights & Biases."""
    version = platform.python_version()
    is_old = sys.version_info < OLDEST
    yield Line("python", "missing" if is_old else "ok", version, "apt-get install python3.11 python3.11-venv" if is_old else "")
    yield from libraries()
    yield dvc()
    yield python_of_stages()
    yield tracking()


def libraries() -> Iterator[Line]:
    """Each library that is absent or another version than constraints.txt pins; one line for all others.

    What only extras ask for, such as the tools for tests, is pinned too. It need not be there, and trains nothing.
    """
    pins, needed, fine = pinned(), required(), 0
    if not pins:
        yield Line(
            "constraints.txt", "missing", "no versions are pinned here", "cd to the project's root, which holds specs/ and constraints.txt"
        )
    for name in sorted({*needed, *pins}):
        found, wanted = installed(name), pins.get(name)
        is_other = bool(found and wanted and found.partition("+")[0] != wanted)  # a local build tag, such as +cpu, is the same version
        if name not in needed:
            if is_other:
                yield Line(name, "optional", f"{found}, pinned is {wanted}", f"pip install {name}=={wanted}")
        elif found is None:
            yield Line(name, "missing", f"not installed{f', pinned is {wanted}' if wanted else ''}", _INSTALL)
        elif is_other:
            yield Line(name, "missing", f"{found}, pinned is {wanted}: cards would name a version that did not train", _INSTALL)
        else:
            fine += 1
    yield Line("libraries", "ok", f"{fine} as constraints.txt pins them or pyproject.toml asks for them")


def required() -> list[str]:
    """Names of what octavo itself depends on, without extras."""
    try:
        lines = importlib.metadata.requires("octavo") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [match[0].lower() for line in lines if "extra ==" not in line and (match := re.match(r"[A-Za-z0-9._-]+", line))]


def pinned() -> dict[str, str]:
    """Library -> version of constraints.txt."""
    try:
        lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return {match[1].lower(): match[2] for line in lines if (match := _PIN.match(line))}


def installed(name: str) -> str | None:
    """Version of a library, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def dvc() -> Line:
    """The command, not only the library: people type it."""
    version = installed("dvc")
    if version is None:
        return Line("dvc", "missing", "not installed", _INSTALL)
    if shutil.which("dvc") is None:
        return Line("dvc", "missing", f"{version}, and no command `dvc` on PATH", "source .venv/bin/activate")
    if not Path(".dvc").is_dir():
        return Line("dvc", "missing", f"{version}, and this folder has no .dvc/", "dvc init")
    return Line("dvc", "ok", version)


def python_of_stages() -> Line:
    """DVC starts stages as `python -m stages...`: that must be the environment that octavo was installed into."""
    command = shutil.which("python")
    if command is None:
        return Line("python on PATH", "missing", "none, and DVC starts stages as `python`", "source .venv/bin/activate")
    try:
        asked = subprocess.run([command, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, timeout=30)
        is_same = asked.stdout.strip() == sys.prefix
    except (OSError, subprocess.TimeoutExpired):
        is_same = False
    if not is_same:
        return Line(
            "python on PATH", "missing", "another environment than octavo's, and DVC starts stages with it", "source .venv/bin/activate"
        )
    return Line("python on PATH", "ok", "octavo's own environment")


def tracking() -> Line:
    """Weights & Biases. Whether a key is set is said, never the key."""
    version = installed("wandb")
    try:
        from stages.train.tracking import configured

        is_asked = configured()
    except ImportError:
        is_asked = False
    if version is None:
        asked = "configured and not installed: runs are not logged there" if is_asked else "not installed; runs need no account"
        return Line("wandb", "optional", asked, "pip install -c constraints.txt 'octavo[wandb]'" if is_asked else "")
    if not is_asked:
        return Line("wandb", "optional", f"{version}, not configured", "export WANDB_MODE=offline, or WANDB_API_KEY")
    return Line("wandb", "ok", f"{version}, configured")
