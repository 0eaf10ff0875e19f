"""The OCaml verifier's program, built once a machine from `ocaml/` with the installed compiler, and kept in `.cache/verifiers/`."""

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
SOURCES = ("stubs.c", "zygote.ml")
SOURCES_DIGEST = "7cb7fd3ccb685487"
"""First digits of the SHA-256 of the sources. It stands here so that a change of them changes the code hash of the gates."""
_LIBRARIES = ("ocamlcommon.cma", "ocamlbytecomp.cma", "ocamltoplevel.cma", "unix.cma")
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
    """Absolute path of the program, built now when it is not there. Raises VerifierUnavailable."""
    ocamlc, version, where = compiler()
    if sources_digest() != SOURCES_DIGEST:
        raise VerifierUnavailable(
            f"the sources of the OCaml verifier have the digest {sources_digest()}, not {SOURCES_DIGEST}",
            why="what scores a run must be what its code hash stands for",
            fix="git checkout stages/train/verifiers, or write the new digest into ocaml_build.py and run octavo compile",
        )
    key = digest("\0".join([SOURCES_DIGEST, version, where, platform.machine()]))[:16]
    built = (CACHE / f"ocaml-{key}").absolute()
    if not built.is_file():
        _build(ocamlc, built)
    return built


def _build(ocamlc: str, target: Path) -> None:
    """Compile in a folder of its own, then move into place, so that two processes that build at once do not meet."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sources().items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        command = [ocamlc, "-custom", "-linkall", "-w", "-a", "-I", "+compiler-libs", *_LIBRARIES, *SOURCES, "-o", "zygote"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=BUILD_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _not_built(str(error)) from None
        if done.returncode:
            raise _not_built((done.stdout + done.stderr).strip()[-500:])
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.{os.getpid()}")
            shutil.copyfile(Path(folder) / "zygote", partial)
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
