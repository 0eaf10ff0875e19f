"""Windows of a run: shares of its target steps, never single logged steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stages.contracts.analysis_card import Windows


@dataclass(frozen=True)
class Window:
    """Steps first..last, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"step {self.first}" if self.first == self.last else f"steps {self.first}-{self.last}"

    @property
    def length(self) -> int:
        return self.last - self.first + 1


def window_of(statistic: str, target_steps: int, shares: Windows) -> Window:
    """The window of `initial` or `final`."""
    return initial_window(target_steps, shares.initial) if statistic == "initial" else final_window(target_steps, shares.final)


def initial_window(target_steps: int, share: float) -> Window:
    """The first share of the target steps; see `_length`."""
    return Window(1, _length(target_steps, share))


def final_window(target_steps: int, share: float) -> Window:
    """The last share of the target steps; see `_length`. A run that stopped early has no values in it."""
    return Window(target_steps - _length(target_steps, share) + 1, target_steps)


def _length(target_steps: int, share: float) -> int:
    """At least two steps, of runs of four steps or more: in shorter ones the first and the last two would share a step."""
    least = 2 if target_steps >= 4 else 1
    return min(target_steps, max(least, math.floor(target_steps * share + 0.5)))
