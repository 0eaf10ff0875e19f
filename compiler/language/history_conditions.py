"""Conditions over history metrics: `reward < 0.15 and slope(reward, 20%) <= 0`, read to data by the grammar of logic.py.

comparison := quantity sign number        sign := "<" | "<=" | ">" | ">=" | "==" | "!="        number may end with `%`
quantity := metric | "slope(" metric ["," length] ")"        length := `60 steps` or `20%` of the run
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import cast, get_args

from compiler.document.units import Length, length
from compiler.language.logic import Reader, Unreadable
from compiler.problems import sentence
from stages.contracts.history import metric
from stages.contracts.rule_card import CompareCard, EitherCard, EveryCard, Sign, WhenCard
from stages.rules import OPPOSITE, leaves, truth

SIGNS = get_args(Sign)
MAX_CASES = 2_000
FEWEST = 3
"""Steps of a slope: through two points every line fits."""
SLOPE_SHARE = 0.2
"""Window of a slope that names none, as a share of the run."""
EXAMPLE = "zero_signal_share > 0.3 or slope(reward, 20%) <= 0"


@dataclass(frozen=True)
class Mention:
    """Where a condition names a metric, and where the whole comparison stands: places in its text."""

    metric: str
    start: int
    leaf: CompareCard
    begins: int
    ends: int


@dataclass(frozen=True)
class Read:
    when: WhenCard
    mentions: tuple[Mention, ...]


@lru_cache(4096)
def history_condition(text: str, target_steps: int) -> Read:
    """What a text says, for a run of so many steps. Metrics are not looked up here. Raises Unreadable E360."""
    reader = _Reader(text, target_steps)
    return Read(reader.read(), tuple(reader.mentions))


class _Reader(Reader[WhenCard]):
    TOKEN = re.compile(r"\s*(<=|>=|==|!=|[()<>=,%]|[A-Za-z0-9_.+\-]+|\S)")
    CODE = "E360"
    WHY = "a condition is comparisons of metrics with numbers, joined by `and`, `or`, `not` and brackets; it is checked and never runs"
    EXAMPLE = EXAMPLE

    def __init__(self, text: str, target_steps: int) -> None:
        super().__init__(text)
        self.target_steps = target_steps
        self.mentions: list[Mention] = []

    def joined(self, parts: list[WhenCard], all_of_them: bool) -> WhenCard:
        return EveryCard(every=tuple(parts)) if all_of_them else EitherCard(either=tuple(parts))

    def word(self, token: str, start: int, holds: bool) -> WhenCard:
        slope, name, at = None, token, start
        if token == "slope" and self.peek() == "(":
            name, at, slope = self._slope()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.\-]*", name):
            raise self.unreadable(f"`{sentence(name)}` is no metric: a comparison begins with one", at, len(name))
        sign, place = self.take()
        if sign not in SIGNS:
            what = "one `=` says nothing here: equal is `==`" if sign == "=" else f"`{sentence(sign)}` is no comparison of `{name}`"
            raise self.unreadable(what, place, len(sign))
        value = self._number()
        signed = cast(Sign, sign)
        leaf = CompareCard(metric=name, slope=slope, sign=signed if holds else OPPOSITE[signed], value=value)
        last, before = self.tokens[self.at - 1]
        self.mentions.append(Mention(name, at, leaf, start, before + len(last)))
        return leaf

    def _slope(self) -> tuple[str, int, int]:
        _, opened = self.take()
        name, at = self.take()
        window = Length(SLOPE_SHARE, "%")
        token, place = self.take()
        if token == ",":
            begins = place + 1
            while token != ")":
                token, place = self.take()
            found = length(self.text[begins:place])
            if found is None or (found.unit == "steps" and found.amount < FEWEST):
                what = f"a slope needs a length of at least {FEWEST} steps after its comma, such as `60 steps` or `20%`"
                raise self.unreadable(what, begins, max(1, place - begins))
            window = found
        if token != ")":
            raise self.unreadable("this bracket is never closed", opened, 1)
        return name, at, max(FEWEST, window.steps(self.target_steps))

    def _number(self) -> float:
        token, place = self.take()
        try:
            value = float(token) if re.fullmatch(r"[-+0-9.eE]+", token) else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.unreadable(f"`{sentence(token)}` is no number to compare with", place, len(token))
        if self.peek() == "%":
            self.at += 1
            return float(f"{value / 100:.15g}")
        return value


@lru_cache(4096)
def never_or_always(of: WhenCard) -> bool | None:
    """True: whatever is measured, it holds; False: it never does; None: it depends. Shares lie in 0..1."""
    found = list(dict.fromkeys(leaves(of)))
    bounds: dict[tuple[str, int | None], set[float]] = {}
    for leaf in found:
        bounds.setdefault((leaf.metric, leaf.slope), set()).add(leaf.value)
    points = [list(_points(key, values)) for key, values in bounds.items()]
    if math.prod(map(len, points)) > MAX_CASES:
        return None
    seen: set[bool | None] = set()
    for values in product(*points):
        at = dict(zip(bounds, values, strict=True))
        seen.add(truth(of, {leaf: at[leaf.metric, leaf.slope] for leaf in found}))
    return seen.pop() if len(seen) == 1 else None


def _points(key: tuple[str, int | None], bounds: set[float]) -> Iterator[float]:
    """Values on, between and beyond the bounds that a quantity can take: one of each kind is enough to know a condition."""
    name, slope = key
    meaning = metric(name)
    low, high = (0.0, 1.0) if meaning is not None and meaning.share and slope is None else (-math.inf, math.inf)
    ordered = sorted(bounds)
    between = [(one + other) / 2 for one, other in pairwise(ordered)]
    candidates = [low, high, ordered[0] - 1, ordered[-1] + 1, *ordered, *between]
    candidates += [(low + ordered[0]) / 2, (high + ordered[-1]) / 2] if math.isfinite(low) else []
    yield from sorted({value for value in candidates if low <= value <= high and math.isfinite(value)})


__all__ = ["Mention", "Read", "Unreadable", "history_condition", "never_or_always"]
