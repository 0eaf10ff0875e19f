"""What a process and its descendants use, read from /proc on the host: for programs whose memory no limit of the kernel's can bound."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def usage(pid: int) -> tuple[float, int]:
    """(CPU seconds, user and system, reaped children included; resident bytes) of a process and all below it; zeros when it has gone."""
    seconds, resident, waiting = 0.0, 0, [pid]
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            seconds += sum(map(int, fields[11:15])) / _TICK
            resident += int(fields[21]) * _PAGE
            for task in os.listdir(f"/proc/{one}/task"):
                waiting += map(int, Path(f"/proc/{one}/task/{task}/children").read_text().split())
    return seconds, resident
