"""Verifications a second: the warm sandbox against one `python file` a candidate, in the same run on the same machine.

    python benchmarks/verifications.py [jobs]

Prints jobs a second of wall time and of CPU time for each tier that holds and for plain subprocesses (no isolation at all), and the
ratio. Target: at least 120 jobs/s on a shared core. Absolute numbers mean nothing on another machine; ratios do.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from stages.train.verifiers import isolation, sandbox
from stages.train.verifiers.python_pool import Job, Pool

CODE = '''
def f(xs):
    """Longest strictly increasing subsequence; job {number}."""
    import bisect
    tails = []
    for x in xs:
        place = bisect.bisect_left(tails, x)
        tails[place:place + 1] = [x]
    return len(tails)
'''
CALLS = [[[1, 5, 2, 3]], [[]], [[3, 2, 1]], [list(range(50))], [[7, 1, 2, 9, 3, 4]]]
RIGHT = [3, 0, 1, 50, 4]


def cpu_seconds() -> float:
    """CPU seconds of this process and its reaped children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def family_cpu_seconds(pid: int) -> float:
    """CPU seconds of a live process, its live children, and all that they have reaped. A killed namespace reports none of it."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if pid in (int(stat.parent.name), int(fields[1])):
                total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def measured(work: Callable[[], float], jobs: int) -> tuple[float, float]:
    """(jobs a wall second, jobs a CPU second). `work` returns CPU seconds that `cpu_seconds` does not see."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    unseen = work()
    return jobs / (time.perf_counter() - wall), jobs / (cpu_seconds() - cpu + unseen)


def sandboxed(tier: isolation.Tier, jobs: int) -> float:
    """Start the zygote, run distinct jobs in batches of 64, end it. The start and the canaries are part of the price."""
    pool, before = Pool(tier), cpu_seconds()
    todo = [Job(CODE.replace("{number}", str(number)), "function", ("f",), json.dumps(CALLS), 1.0, 512 * 2**20) for number in range(jobs)]
    for start in range(0, jobs, 64):
        for ran in pool.run(todo[start : start + 64]):
            assert [value.value for value in ran.values] == RIGHT, ran
    inside, mine = family_cpu_seconds(pool.pid or 0), cpu_seconds() - before
    pool.close()
    return inside - (cpu_seconds() - before - mine)  # less what closing made visible


def subprocesses(jobs: int) -> float:
    """One interpreter a candidate, without isolation: what a script would do."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "candidate.py"
        for number in range(jobs):
            file.write_text(CODE.replace("{number}", str(number)) + f"\nprint([f(*call) for call in {CALLS!r}] == {RIGHT!r})\n")
            done = subprocess.run([isolation.python(), "-I", "-S", str(file)], capture_output=True, text=True, timeout=60)
            assert done.stdout == "True\n", done
    return 0.0


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    plain = measured(lambda: subprocesses(max(jobs // 10, 20)), max(jobs // 10, 20))
    print(f"{'python file, no isolation':28} {plain[0]:7.0f} jobs/s wall {plain[1]:7.0f} jobs/s CPU")
    for tier in isolation.TIERS:
        if sandbox.holes(tier):
            print(f"{tier:28} does not hold here")
            continue
        found = measured(lambda tier=tier: sandboxed(tier, jobs), jobs)  # type: ignore[misc]
        ratios = f"{found[0] / plain[0]:5.1f}x wall {found[1] / plain[1]:5.1f}x CPU"
        print(f"{tier:28} {found[0]:7.0f} jobs/s wall {found[1]:7.0f} jobs/s CPU  {ratios}")


if __name__ == "__main__":
    main()
