"""The interval of a share, for counts of completions and of attempts alike."""

from __future__ import annotations

import math
from statistics import NormalDist


def wilson(k: float, n: float, level: float) -> tuple[float, float]:
    """Wilson's interval of k of n at a level such as 0.95, both ends in 0..1. Counts that are worth fewer need not be
    whole. Of none of nothing all of 0..1 (Wilson 1927)."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (k + z**2 / 2) / (n + z**2)
    half = z / (n + z**2) * math.sqrt(k * (n - k) / n + z**2 / 4)
    return 0.0 if k == 0 else centre - half, 1.0 if k == n else centre + half
