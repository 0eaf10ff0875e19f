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
from stages.train.verifiers.faults import VerifierUnavailable

CACHE = Path(".cache/verifiers")
BUILD_SECONDS = 300.0
SOURCES = ("stubs.c", "inside.ml", "typing.ml", "checks.ml", "runs.ml")
SOURCES_DIGEST = "1780af9ce4e97362"
"""First digits of the SHA-256 of the sources. It stands here so that a change of them changes the digest of the gates' code."""
_LIBRARIES = ("unix", "ocamlcommon", "ocamlbytecomp")
_SHARED = ("stubs.c", "inside.ml", "typing.ml")
_OPTIONS = ("-w", "-a", "-I", "+compiler-libs")
_INSTALL = "apt-get install ocaml-nox"


def sources() -> dict[str, str]:
    """File name -> text of what is compiled."""
    return {name: (Path(__file__).parent / "ocaml" / name).read_text(encoding="utf-8") for name in SOURCES}


def sources_digest() -> str:
    """What SOURCES_DIGEST must be."""
    return digest("\0".join(f"{name}\0{text}" for name, text in sources().items()))[:16]


@functools.cache
def compiler() -> tuple[str, str, str]:
    """(path of ocamlc, its version, folder of its standard library). Raises VerifierUnavailable when there is none."""
    ocamlc = shutil.which("ocamlc")
    try:
        if ocamlc is None:
            raise FileNotFoundError("ocamlc is not installed")
        version, folder = (
            subprocess.run([ocamlc, flag], capture_output=True, text=True, check=True, timeout=60).stdout.strip()
            for flag in ("-version", "-where")
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = "the OCaml gates type check and run answers with OCaml's own compiler"
        raise VerifierUnavailable(str(error), why=why, fix=_INSTALL) from None
    return ocamlc, version, folder


def program() -> Path:
    """Absolute path of the program that type checks and runs answers, built now when it is not there. Raises VerifierUnavailable."""
    libraries = [f"{name}.cma" for name in (*_LIBRARIES, "ocamltoplevel")]
    return _built("runs", [compiler()[0], "-custom", "-linkall", *_OPTIONS, *libraries, *_SHARED, "runs.ml"])


def checker() -> Path:
    """Of the program that only type checks: in machine code where the native compiler works, else the other. Raises VerifierUnavailable."""
    compiler()
    ocamlopt = shutil.which("ocamlopt")
    if ocamlopt is None:
        return program()
    libraries = [f"{name}.cmxa" for name in _LIBRARIES]
    try:
        return _built("checks", [ocamlopt, *_OPTIONS, *libraries, *_SHARED, "checks.ml"])
    except VerifierUnavailable:
        return program()


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
    with tempfile.TemporaryDirectory() as folder:
        for file, text in sources().items():
            (Path(folder) / file).write_text(text, encoding="utf-8")
        command = [*command, "-o", "built"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=BUILD_SECONDS)
            if done.returncode:
                raise OSError((done.stdout + done.stderr).strip()[-500:])
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.{os.getpid()}")
            shutil.copyfile(Path(folder) / "built", partial)
            partial.chmod(0o755)
            partial.replace(target)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise VerifierUnavailable(
                f"the OCaml verifier cannot be built: {error}",
                why="it is made from the installed compiler's own libraries (compiler-libs of OCaml 4.13) and a few lines of C",
                fix=_INSTALL,
            ) from None
    return target
