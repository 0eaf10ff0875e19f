"""How many verifier processes this process may keep at work: by cores, by what the container allows, and by memory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
_UNLIMITED = 2**60


def cores() -> int:
    """Cores of this process: its affinity, the container's quota, and a share of them where several trainers run on the machine."""
    count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError, IndexError):
        quota, period = (CGROUP / "cpu.max").read_text().split()
        count = min(count, -(-int(quota) // int(period)))
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        share, of = (int((CGROUP / "cpu" / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        if share > 0:
            count = min(count, -(-share // of))
    with contextlib.suppress(ValueError, ZeroDivisionError):  # as torchrun and accelerate say it
        count //= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, count)


def memory() -> int:
    """Bytes of memory of the machine, or of the container where that has less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            found.append(int((CGROUP / name).read_text()))
    return min(one for one in found if 0 < one < _UNLIMITED)
