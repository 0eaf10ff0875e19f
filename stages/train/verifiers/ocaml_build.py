"""The OCaml verifier's programs, built once a machine from `ocaml/` with the installed compiler, and kept in `.cache/verifiers/`."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from stages.contracts.artifact import digest
from stages.train.verifiers.verdict import VerifierUnavailable

CACHE = Path(".cache/verifiers")
BUILD_SECONDS = 300.0
SOURCES = Path(__file__).parent / "ocaml"
SOURCES_DIGEST = "3b775fe920ef86f2"
"""First digits of the SHA-256 of the sources. It stands here so that a change of them changes the digest of the gates' code."""
_LIBRARIES = ("unix", "ocamlcommon", "ocamlbytecomp")
_SHARED = ("stubs.c", "inside.ml", "typing.ml")
_OPTIONS = ("-w", "-a", "-I", "+compiler-libs")


def sources_digest() -> str:
    """What SOURCES_DIGEST must be."""
    return digest("".join(f"{path.name}\0{path.read_text(encoding='utf-8')}\0" for path in sorted(SOURCES.iterdir())))[:16]


@functools.cache
def compiler() -> tuple[str, str, str]:
    """(path of ocamlc, its version, folder of its standard library). Raises VerifierUnavailable when there is none."""
    ocamlc = shutil.which("ocamlc")
    if ocamlc is None:
        raise _unavailable("ocamlc is not installed")
    return ocamlc, *(_output([ocamlc, flag], Path("/")).strip() for flag in ("-version", "-where"))  # type: ignore[return-value]


def program() -> Path:
    """Absolute path of the program that type checks and runs answers, built now when it is not there. Raises VerifierUnavailable."""
    libraries = [f"{name}.cma" for name in (*_LIBRARIES, "ocamltoplevel")]
    return _built("runs", [compiler()[0], "-custom", "-linkall", *_OPTIONS, *libraries, *_SHARED, "runs.ml"])


def checker() -> Path:
    """Of the program that only type checks: in machine code where there is a native compiler. Raises VerifierUnavailable."""
    ocamlopt = shutil.which("ocamlopt")
    if ocamlopt is None:
        return program()
    return _built("checks", [ocamlopt, *_OPTIONS, *(f"{name}.cmxa" for name in _LIBRARIES), *_SHARED, "checks.ml"])


def _built(name: str, command: list[str]) -> Path:
    """Compile in a folder of its own, then move into place, so that two processes that build at once do not meet."""
    if sources_digest() != SOURCES_DIGEST:
        raise VerifierUnavailable(
            f"the sources of the OCaml verifier have the digest {sources_digest()}, not {SOURCES_DIGEST}",
            why="what scores a run must be what its code version stands for",
            fix="git checkout stages/train/verifiers, or write the new digest into ocaml_build.py and run octavo code",
        )
    target = (CACHE / f"ocaml-{name}-{digest(chr(0).join([SOURCES_DIGEST, *compiler()[1:], platform.machine()]))[:16]}").absolute()
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
        _output([*command, "-o", "built"], Path(folder))
        built = Path(folder) / "built"
        built.chmod(0o755)
        built.replace(target)
    return target


def _output(command: list[str], folder: Path) -> str:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=BUILD_SECONDS).stdout
    except subprocess.CalledProcessError as error:
        raise _unavailable(f"{os.path.basename(command[0])}: {(error.stdout + error.stderr).strip()[-500:]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unavailable(str(error)) from None


def _unavailable(what: str) -> VerifierUnavailable:
    why = "the OCaml gates check answers with a program made from OCaml's own compiler (compiler-libs of OCaml 4.13) and a few lines of C"
    return VerifierUnavailable(what, why=why, fix="apt-get install ocaml-nox")
