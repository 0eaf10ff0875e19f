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
"""First digits of the SHA-256 of the sources. It stands here so that a change of them changes the code hash of the gates."""
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
    if ocamlc is None:
        raise VerifierUnavailable(
            "ocamlc is not installed", why="the OCaml gates type check and run answers with OCaml's own compiler", fix=_INSTALL
        )
    try:
        said = [
            subprocess.run([ocamlc, flag], capture_output=True, text=True, check=True, timeout=60).stdout for flag in ("-version", "-where")
        ]
    except (OSError, subprocess.SubprocessError) as error:
        raise VerifierUnavailable(f"ocamlc does not run: {error}", why="the OCaml gates need it", fix=_INSTALL) from None
    return ocamlc, said[0].strip(), said[1].strip()


def program() -> Path:
    """Absolute path of the program that type checks and runs answers, built now when it is not there. Raises VerifierUnavailable."""
    ocamlc = compiler()[0]
    libraries = [f"{name}.cma" for name in (*_LIBRARIES, "ocamltoplevel")]
    return _built("runs", [ocamlc, "-custom", "-linkall", *_OPTIONS, *libraries, *_SHARED, "runs.ml"])


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
    _, version, where = compiler()
    if sources_digest() != SOURCES_DIGEST:
        raise VerifierUnavailable(
            f"the sources of the OCaml verifier have the digest {sources_digest()}, not {SOURCES_DIGEST}",
            why="what scores a run must be what its code hash stands for",
            fix="git checkout stages/train/verifiers, or write the new digest into ocaml_build.py and run octavo compile",
        )
    key = digest("\0".join([SOURCES_DIGEST, version, where, platform.machine()]))[:16]
    built = (CACHE / f"ocaml-{name}-{key}").absolute()
    if not built.is_file():
        _build(command, built)
    return built


def _build(command: list[str], target: Path) -> None:
    """Compile in a folder of its own, then move into place, so that two processes that build at once do not meet."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sources().items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [*command, "-o", "built"], cwd=folder, capture_output=True, text=True, errors="replace", timeout=BUILD_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _not_built(str(error)) from None
        if done.returncode:
            raise _not_built((done.stdout + done.stderr).strip()[-500:])
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.{os.getpid()}")
            shutil.copyfile(Path(folder) / "built", partial)
            partial.chmod(0o755)
            partial.replace(target)
        except OSError as error:
            raise _not_built(str(error)) from None


def _not_built(reason: str) -> VerifierUnavailable:
    return VerifierUnavailable(
        f"the OCaml verifier cannot be built: {reason}",
        why="it is made from the installed compiler's own libraries (compiler-libs of OCaml 4.13) and a few lines of C",
        fix=_INSTALL,
    )
