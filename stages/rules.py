"""Stop rules: the one evaluator, used live while a run trains and again on its recorded history.

A cell that is not finite, null or absent is never a number, and neither is any cell of a step whose gradient was not finite. A rule whose
quantity is unknown does not fire. With `lasting`, a step at which one of the rule's metrics was not logged does not count, either way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from stages.contracts.expressions import Comparison, Leaf, comparisons, text, truth
from stages.contracts.history import GRADIENT_METRICS, SKIPPED
from stages.contracts.stops import StopRule, StopRules

Seen = float | None | Mapping[str, str]
"""A cell as the recorder's journal holds it: a finite number, null, or {"nonfinite": "nan"}; or as a frame does: inf, and -inf for null."""
Row = Mapping[str, Seen]
_SCALE = 1 << 1074
_ROUNDING = 1e-9
"""Relative. Means of a few thousand rows are more exact than this, and no threshold is meant more exactly."""


def above(value: float, limit: float) -> bool:
    """Whether a mean is larger than its threshold by more than the rounding of its sum: a mean of 0.3 exactly is not above 0.3."""
    return value > limit and not math.isclose(value, limit, rel_tol=_ROUNDING)


def below(value: float, limit: float) -> bool:
    """Whether a mean is smaller than its threshold by more than the rounding of its sum."""
    return value < limit and not math.isclose(value, limit, rel_tol=_ROUNDING)


def stretch(first: int, last: int) -> str:
    """`steps 51-60`, or `step 60`."""
    return f"step {first}" if first == last else f"steps {first}-{last}"


def beside(number: float, bound: float, *, digits: int = 3) -> str:
    """A number as it is printed beside a bound: with more digits where rounding would move it to the other side of the bound."""
    for precision in range(digits, 17):
        text = f"{number + 0.0:.{precision}g}"  # + 0.0: no minus zero
        if (float(text) > bound) == (number > bound) and (float(text) < bound) == (number < bound):
            return text
    return repr(number)


def bound_text(bound: float) -> str:
    """A bound with all digits that a spec can hold."""
    return f"{bound:.15g}"


def bounds_text(direction: str, bound: float, upper: float | None = None) -> str:
    """`above 0.2`, or `between 0.15 and 0.25`."""
    return f"{direction} {bound_text(bound)}" + ("" if upper is None else f" and {bound_text(upper)}")


def width(target_steps: int, share: float) -> int:
    """A share of the target steps, at least one step: the width of a rule's window."""
    return min(target_steps, max(1, math.floor(target_steps * share + 0.5)))


def window_length(target_steps: int, share: float) -> int:
    """Steps of the first and of the last window: this share of the target steps, rounded. At least two steps in runs of four or more:
    in shorter runs two windows of two steps would share one."""
    return max(width(target_steps, share), 2 if target_steps >= 4 else 1)


class Trailing:
    """The finite values of one metric in the last `width` steps.

    Sums are whole numbers of 2**-1074, the smallest float, so adding and removing loses nothing: the mean of equal values is that value,
    and the slope of a flat series is exactly 0.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._inside: deque[tuple[int, int]] = deque()
        self._x = self._xx = self._y = self._xy = 0

    def move(self, step: int, value: float | None) -> None:
        """Go on to a step, with its value when it has one. Steps must rise."""
        while self._inside and self._inside[0][0] <= step - self.width:
            self._add(*self._inside.popleft(), -1)
        if value is not None:
            numerator, denominator = value.as_integer_ratio()
            self._inside.append((step, numerator * (_SCALE // denominator)))
            self._add(*self._inside[-1], 1)

    def _add(self, step: int, exact: int, sign: int) -> None:
        self._x += sign * step
        self._xx += sign * step * step
        self._y += sign * exact
        self._xy += sign * step * exact

    @property
    def mean(self) -> float | None:
        """Mean of the values; None without values."""
        return self._y / (_SCALE * len(self._inside)) if self._inside else None

    @property
    def slope(self) -> float | None:
        """Least-squares slope per step; None with fewer than three values, because every line fits two points."""
        n = len(self._inside)
        if n < 3:
            return None
        return (n * self._xy - self._x * self._y) / (_SCALE * (n * self._xx - self._x * self._x))


class Firing(NamedTuple):
    """A rule whose condition held at a step. `held_back`: the green light that kept the run going; None: the run stops."""

    rule: str
    step: int
    quantity: str
    """What `value` is, such as `mean of reward over steps 51-60`. Of a condition with several comparisons: the first one that holds."""
    value: float
    metric: str
    first: int
    """First step that the value or the stretch covers."""
    held_back: str | None = None


class Watch:
    """Evaluates the rules on a run's steps in rising order. After a firing that stops the run it looks at no further step."""

    def __init__(self, stop: StopRules) -> None:
        self.stop = stop
        self.firings: list[Firing] = []
        self.stopped: Firing | None = None
        self.measured: set[str] = set()
        """Metrics that had a number at any step."""
        self._rules = tuple(_Rule(rule) for rule in stop.rules)
        self._lights = tuple(_Rule(light, waits=False) for light in stop.green_lights)

    def see(self, step: int, row: Row) -> Firing | None:
        """One logged step. Returns the firing that stops the run at this step, if one does."""
        if self.stopped is not None:
            return None
        values = numbers(row)
        self.measured |= values.keys()
        firings, lights = ([rule.see(step, row, values) for rule in rules] for rules in (self._rules, self._lights))
        light = next((light.rule for light in lights if light), None)
        for firing in filter(None, firings):
            self.firings.append(firing._replace(held_back=None if firing.rule == "early_stop" else light))
            if self.firings[-1].held_back is None:
                self.stopped = self.firings[-1]
                break
        return self.stopped


def numbers(row: Row) -> dict[str, float]:
    """The finite values of a step. Of a step whose gradient was not finite only whether it was skipped."""
    values = {name: float(cell) for name, cell in row.items() if isinstance(cell, int | float) and math.isfinite(cell)}
    if values.get(SKIPPED) or any(_is_nonfinite(row.get(name)) for name in GRADIENT_METRICS):
        return {name: value for name, value in values.items() if name == SKIPPED}
    return values


def _is_nonfinite(cell: Seen) -> bool:
    return isinstance(cell, Mapping) or cell == math.inf


class _Rule:
    """One rule with its trailing windows, and the steps in a row at which its condition held.

    `waits`: rules need a full window. Green lights do not, because they can only delay a stop.
    """

    def __init__(self, card: StopRule, *, waits: bool = True) -> None:
        self.card = card
        self._leaves = comparisons(card.when)
        self._trails = {leaf: Trailing(leaf.slope or card.window) for leaf in self._leaves if leaf.slope or card.lasting is None}
        self._begins = max([card.after, *(trail.width for trail in self._trails.values() if waits)])
        self._held: list[int] = []

    def see(self, step: int, row: Row, values: Mapping[str, float]) -> Firing | None:
        for leaf, trail in self._trails.items():
            trail.move(step, values.get(leaf.metric))
        if step < self._begins:
            return None
        quantities = {leaf: self._quantity(leaf, values) for leaf in self._leaves}
        holds = truth(self.card.when, lambda leaf: compared(leaf, quantities))
        if self.card.lasting is None:
            return self._firing(step, quantities) if holds else None
        if all(leaf.metric in row for leaf in self._leaves):
            self._held = [*self._held, step][-self.card.lasting :] if holds else []
            if len(self._held) == self.card.lasting:
                return self._firing(step, quantities)
        return None

    def _quantity(self, leaf: Comparison, values: Mapping[str, float]) -> float | None:
        if leaf.slope is not None:
            return self._trails[leaf].slope
        return values.get(leaf.metric) if self.card.lasting is not None else self._trails[leaf].mean

    def _firing(self, step: int, quantities: Mapping[Comparison, float | None]) -> Firing:
        leaf, value = next((leaf, value) for leaf, value in quantities.items() if value is not None and leaf.holds_at(value))
        first = max(1, step - (leaf.slope or self.card.window) + 1)
        quantity = f"{'mean' if leaf.slope is None else 'slope'} of {leaf.metric} over {stretch(first, step)}"
        if leaf.slope is None and self.card.lasting is not None:
            first = self._held[0]
            quantity = f"{leaf.metric} at step {step} (the condition held over {stretch(first, step)})"
        return Firing(self.card.id, step, quantity, value, leaf.metric, first)


def compared(leaf: Leaf, quantities: Mapping[Comparison, float | None]) -> bool | None:
    """Whether a comparison holds; None while its quantity is unknown."""
    assert isinstance(leaf, Comparison)  # rules have no other leaves
    value = quantities[leaf]
    return None if value is None else leaf.holds_at(value)


def rule_text(rule: StopRule) -> str:
    """The rule in words: `zero_signal_share == 1 for 15 steps`, `reward < 0.15, mean over 30 steps, from step 270 on`."""
    lasting = f" for {rule.lasting} logged steps in a row" if rule.lasting is not None else ""
    if rule.lasting is None and rule.window > 1 and not all(leaf.slope for leaf in comparisons(rule.when)):
        lasting = f", mean over {rule.window} steps"
    return f"{text(rule.when)}{lasting}" + (f", from step {rule.after} on" if rule.after > 1 else "")
