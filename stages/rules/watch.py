"""The one evaluator of stop rules: fed step by step, live while a run trains and again from its recorded history.

A cell that is not finite, null or absent is never a number, and neither is any cell of a step whose gradient was not finite. What is
unknown fires nothing. With `lasting` a step at which one of the rule's metrics was not logged at all does not count, either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stages.contracts.rule_card import CompareCard, EitherCard, EveryCard, RuleCard, Sign, StopCard, WhenCard
from stages.contracts.series import GRADIENT_METRICS, SKIPPED
from stages.rules.windows import Trailing

Seen = float | None | Mapping[str, str]
"""A cell as the recorder's journal holds it: a finite number, null, or {"nonfinite": "nan"}."""
Row = Mapping[str, Seen]


@dataclass(frozen=True)
class Firing:
    """A rule whose condition held at a step. `held_back`: the green light that kept the run going; None: the run is to stop."""

    rule: str
    step: int
    quantity: str
    """What `value` is, such as `mean of reward over steps 51-60`; of a condition of several comparisons the first one that holds."""
    value: float
    metric: str
    first: int
    """First step that the value or the stretch covers."""
    held_back: str | None = None


class Watch:
    """Looks at a run's steps in rising order. After a firing that stops the run it is over and sees nothing more."""

    def __init__(self, stop: StopCard) -> None:
        self.firings: list[Firing] = []
        self.stopped: Firing | None = None
        self.known: set[str] = set()
        """Metrics that had a number at any step."""
        self._rules = tuple(_Rule(rule) for rule in stop.rules)
        self._lights = tuple(_Rule(light, waits=False) for light in stop.green_lights)

    def see(self, step: int, row: Row) -> Firing | None:
        """One logged step. The firing that stops the run at this step, if one does."""
        if self.stopped is not None:
            return None
        values = numbers(row)
        self.known |= values.keys()
        fired = [(rule.card.id, found) for rule in self._rules if (found := rule.see(step, row, values)) is not None]
        lights = [light.card.id for light in self._lights if light.see(step, row, values) is not None]
        for name, (quantity, value, metric, first) in fired:
            held_back = lights[0] if lights and name != "early_stop" else None
            firing = Firing(name, step, quantity, value, metric, first, held_back)
            self.firings.append(firing)
            if held_back is None:
                self.stopped = firing
                return firing
        return None


def numbers(row: Row) -> dict[str, float]:
    """The finite values of a step. Of a step whose gradient was not finite only whether it was skipped."""
    values = {name: float(cell) for name, cell in row.items() if isinstance(cell, int | float)}
    if values.get(SKIPPED) or any(isinstance(row.get(name), Mapping) for name in GRADIENT_METRICS):
        return {name: value for name, value in values.items() if name == SKIPPED}
    return values


_Found = tuple[str, float, str, int]


class _Rule:
    """One rule with what it remembers of the run: its windows, and for how many steps in a row its condition has held.

    `waits`: for the first whole window. A green light takes what there is: it only ever puts a stop off.
    """

    def __init__(self, card: RuleCard, *, waits: bool = True) -> None:
        self.card = card
        self._leaves = tuple(dict.fromkeys(leaves(card.when)))
        self._trails = {leaf: Trailing(leaf.slope or card.window) for leaf in self._leaves if leaf.slope or card.lasting is None}
        self._begins = max([card.after, *(trail.width for trail in self._trails.values() if waits)])
        self._held: list[int] = []

    def see(self, step: int, row: Row, values: Mapping[str, float]) -> _Found | None:
        for leaf, trail in self._trails.items():
            trail.move(step, values.get(leaf.metric))
        if step < self._begins:
            return None
        now = {leaf: self._quantity(leaf, values) for leaf in self._leaves}
        holds = truth(self.card.when, now)
        if self.card.lasting is None:
            return self._found(step, now) if holds else None
        if all(leaf.metric in row for leaf in self._leaves):
            self._held = [*self._held, step][-self.card.lasting :] if holds else []
            if len(self._held) == self.card.lasting:
                return self._found(step, now)
        return None

    def _quantity(self, leaf: CompareCard, values: Mapping[str, float]) -> float | None:
        if leaf.slope is not None:
            return self._trails[leaf].slope
        return values.get(leaf.metric) if self.card.lasting is not None else self._trails[leaf].mean

    def _found(self, step: int, now: Mapping[CompareCard, float | None]) -> _Found:
        leaf, value = next((leaf, value) for leaf, value in now.items() if value is not None and compared(leaf, value))
        if leaf.slope is not None:
            first = max(1, step - leaf.slope + 1)
            return f"slope of {leaf.metric} over {stretch(first, step)}", value, leaf.metric, first
        if self.card.lasting is not None:
            first = self._held[0]
            return f"{leaf.metric} at step {step} (the condition held over {stretch(first, step)})", value, leaf.metric, first
        first = max(1, step - self.card.window + 1)
        return f"mean of {leaf.metric} over {stretch(first, step)}", value, leaf.metric, first


def stretch(first: int, last: int) -> str:
    """`steps 51-60`, or `step 60`."""
    return f"step {first}" if first == last else f"steps {first}-{last}"


def leaves(of: WhenCard) -> Iterator[CompareCard]:
    """The comparisons of a condition, from left to right."""
    match of:
        case CompareCard():
            yield of
        case EveryCard(every=parts) | EitherCard(either=parts):
            for part in parts:
                yield from leaves(part)


def truth(of: WhenCard, quantities: Mapping[CompareCard, float | None]) -> bool | None:
    """Whether a condition holds; None while it depends on what is unknown."""
    match of:
        case CompareCard():
            value = quantities[of]
            return None if value is None else compared(of, value)
        case EveryCard(every=parts):
            found = [truth(part, quantities) for part in parts]
            return False if False in found else None if None in found else True
        case EitherCard(either=parts):
            found = [truth(part, quantities) for part in parts]
            return True if True in found else None if None in found else False


def compared(leaf: CompareCard, value: float) -> bool:
    """Whether a known value compares with the bound as it should."""
    bound = leaf.value
    return {
        "<": value < bound,
        "<=": value <= bound,
        ">": value > bound,
        ">=": value >= bound,
        "==": value == bound,
        "!=": value != bound,
    }[leaf.sign]


OPPOSITE: dict[Sign, Sign] = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def told(rule: RuleCard) -> str:
    """The rule in words: `zero_signal_share == 1 for 15 steps`, `reward < 0.15, mean over 30 steps, from step 270 on`."""
    lasting = f" for {rule.lasting} logged steps in a row" if rule.lasting is not None else ""
    if rule.lasting is None and rule.window > 1 and not all(leaf.slope for leaf in leaves(rule.when)):
        lasting = f", mean over {rule.window} steps"
    return f"{written(rule.when)}{lasting}" + (f", from step {rule.after} on" if rule.after > 1 else "")


def written(of: WhenCard) -> str:
    """The condition as a spec would hold it, such as `reward < 0.15 and slope(reward, 60 steps) <= 0`."""
    match of:
        case CompareCard():
            what = of.metric if of.slope is None else f"slope({of.metric}, {of.slope} steps)"
            return f"{what} {of.sign} {of.value:g}"
        case EveryCard(every=parts):
            return " and ".join(f"({written(part)})" if isinstance(part, EitherCard) else written(part) for part in parts)
        case EitherCard(either=parts):
            return " or ".join(written(part) for part in parts)
