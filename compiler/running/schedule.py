"""When runs would be done: the longest first onto what is free first, as a machine starts them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def longest_first(hours: Sequence[tuple[float | None, int]]) -> list[int]:
    """Indices of tasks, given as (hours, GPUs), in the order in which they begin. Unknown hours come last, in their own order."""
    return sorted(range(len(hours)), key=lambda index: -(hours[index][0] or 0.0) * max(1, hours[index][1]))


def makespan(hours: Sequence[float], slots: int) -> float:
    """Hours until the last of these tasks ends, when `slots` of them run at once."""
    free = [0.0] * max(1, min(slots, len(hours)))
    for each in sorted(hours, reverse=True):
        heapq.heapreplace(free, free[0] + each)
    return max(free)
