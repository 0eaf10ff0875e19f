"""Trailing windows of a run's steps, and exact means and slopes over them.

Sums are kept as whole numbers of 2**-1074, the smallest float, so adding and taking away loses nothing: the mean of equal values is
that value, the slope of a flat series is exactly 0, and live training and analysis get the same number to the last bit.
"""

from __future__ import annotations

import math
from collections import deque

_SCALE = 1 << 1074


def width(target_steps: int, share: float) -> int:
    """A share of the target steps, at least one step: the width of a window."""
    return min(target_steps, max(1, math.floor(target_steps * share + 0.5)))


def step_of(share: float, target_steps: int) -> int:
    """The first step at which this share of the run is done; at least 1."""
    return max(1, math.ceil(round(share * target_steps, 9)))


class Trailing:
    """The finite values of one metric in the last `width` steps."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._inside: deque[tuple[int, int]] = deque()
        self._x = self._xx = self._y = self._xy = 0

    def move(self, step: int, value: float | None) -> None:
        """Go on to a step, with its value when it has one. Steps must rise."""
        while self._inside and self._inside[0][0] <= step - self.width:
            self._count(*self._inside.popleft(), -1)
        if value is not None:
            numerator, denominator = value.as_integer_ratio()
            exact = numerator * (_SCALE // denominator)
            self._inside.append((step, exact))
            self._count(step, exact, 1)

    def _count(self, step: int, exact: int, sign: int) -> None:
        self._x += sign * step
        self._xx += sign * step * step
        self._y += sign * exact
        self._xy += sign * step * exact

    @property
    def mean(self) -> float | None:
        """Mean of the values; None when there are none."""
        return self._y / (_SCALE * len(self._inside)) if self._inside else None

    @property
    def slope(self) -> float | None:
        """Least-squares slope per step; None with fewer than three values: through two points every line fits."""
        n = len(self._inside)
        if n < 3:
            return None
        spread = n * self._xx - self._x * self._x
        return (n * self._xy - self._x * self._y) / (_SCALE * spread)
