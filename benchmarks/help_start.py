"""`octavo --help` against a bare `python -c pass` and a bare `import argparse`, interleaved; target at most 6 times bare Python."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPEATS = 15
TARGET = 6.0
COMMANDS = {
    "bare python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import argparse'": [sys.executable, "-c", "import argparse"],
    "octavo --help": [sys.executable, "-m", "compiler", "--help"],
}


def main() -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(REPEATS):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    bare = medians["bare python -c pass"]
    for name, median in medians.items():
        print(f"{name:<32} {median:6.3f} s {median / bare:5.1f} x bare Python")
    if medians["octavo --help"] > TARGET * bare:
        print(f"MISSED: octavo --help is more than {TARGET:g} times bare Python")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
