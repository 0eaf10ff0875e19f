"""Windows of a run: shares of its target steps, never single logged steps."""

from __future__ import annotations

from dataclasses import dataclass

from stages.contracts.analysis_card import Windows
from stages.contracts.window_length import window_length


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
    """The first share of the target steps; see window_length."""
    return Window(1, window_length(target_steps, share))


def final_window(target_steps: int, share: float) -> Window:
    """The last share of the target steps; see window_length. A run that stopped early has no values in it."""
    return Window(target_steps - window_length(target_steps, share) + 1, target_steps)
