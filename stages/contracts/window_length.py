"""How many steps the first and the last window of a run have: for findings, detectors and expectations alike."""

from __future__ import annotations

import math


def window_length(target_steps: int, share: float) -> int:
    """This share of the target steps, rounded; at least two steps, of runs of four steps or more: in shorter ones the first and the last
    two would share a step."""
    least = 2 if target_steps >= 4 else 1
    return min(target_steps, max(least, math.floor(target_steps * share + 0.5)))
