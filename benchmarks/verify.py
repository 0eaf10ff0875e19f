"""`octavo verify` against hashing the same files: what computing everything again costs beside reading it once.

    python benchmarks/verify.py [experiment]

Needs an experiment that has been run (`make demo`); says so and ends when there is none. Best of three.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TIMES = 3


def best(measured: Callable[[], object]) -> float:
    """Seconds of the fastest of a few calls."""
    found = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        measured()
        found.append(time.perf_counter() - begun)
    return min(found)


def files(folder: Path) -> list[Path]:
    """Everything that belongs to the experiment, and the base models."""
    return [path for root in (folder, Path("runs/_models"), Path("data")) for path in root.rglob("*") if path.is_file()]


def hashed(paths: list[Path]) -> None:
    """Read each once, as `md5sum` would."""
    for path in paths:
        with path.open("rb") as stream:
            hashlib.file_digest(stream, "md5")


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "quickstart"
    folder = Path("runs") / name
    if not (folder / "analysis/findings.json").exists():
        print(f"{folder} has no results: make demo")
        return
    paths = files(folder)
    size = sum(path.stat().st_size for path in paths)
    verify = [sys.executable, "-m", "compiler", "verify", name]
    seconds = best(lambda: subprocess.run(verify, check=True, capture_output=True))
    alone = best(lambda: hashed(paths))
    print(f"{name}: {len(paths)} files, {size / 1e6:.1f} MB")
    print(f"hashing them       {alone:7.2f} s")
    print(f"octavo verify      {seconds:7.2f} s   (screen, conclude, draw and page run again, and the site is compared)")


if __name__ == "__main__":
    main()
