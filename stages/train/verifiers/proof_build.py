"""The library that turns a proof checker into a zygote, built once a machine from `proof/zygote.c` and kept in `.cache/verifiers/`."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from stages.contracts.artifact import digest
from stages.train.verifiers.faults import VerifierUnavailable

CACHE = Path(".cache/verifiers")
BUILD_SECONDS = 120.0
SOURCE = Path(__file__).parent / "proof" / "zygote.c"
SOURCE_DIGEST = "4b587a3ad7232bf8"
"""First digits of the SHA-256 of the source. It stands here so that a change of it changes the code hash of the gates."""
_INSTALL = "apt-get install gcc libc6-dev"


def source_digest() -> str:
    """What SOURCE_DIGEST must be."""
    return digest(SOURCE.read_text(encoding="utf-8"))[:16]


def library() -> Path:
    """Absolute path of the library, built now when it is not there. Raises VerifierUnavailable."""
    if source_digest() != SOURCE_DIGEST:
        raise VerifierUnavailable(
            f"the source of the proof verifier has the digest {source_digest()}, not {SOURCE_DIGEST}",
            why="what scores a run must be what its code hash stands for",
            fix="git checkout stages/train/verifiers, or write the new digest into proof_build.py and run octavo compile",
        )
    built = (CACHE / f"proof-{SOURCE_DIGEST}-{platform.machine()}.so").absolute()
    if not built.is_file():
        _build(built)
    return built


def _build(target: Path) -> None:
    """Compile beside the target, then move into place, so that two processes that build at once do not meet."""
    gcc = shutil.which("gcc")
    if gcc is None:
        raise _not_built("gcc is not installed")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / "zygote.so"
            command = [gcc, "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(made), "-ldl"]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=BUILD_SECONDS)
            if done.returncode:
                raise _not_built(done.stderr.strip()[-500:])
            os.chmod(made, 0o755)
            made.replace(target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_built(str(error)) from None


def _not_built(reason: str) -> VerifierUnavailable:
    return VerifierUnavailable(
        f"the proof verifier cannot be built: {reason}",
        why="a few lines of C make the proof checker start once and fork a process for each proof",
        fix=_INSTALL,
    )
