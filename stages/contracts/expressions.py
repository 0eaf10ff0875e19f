"""Conditions of a spec as data: when a penalty applies, what a combined score passes, when a rule stops a run. Never code.

There is no `not`: the compiler pushes negation down to the leaves, which keeps what is unknown unknown. `truncated and not tests.pass` is
`{"all": [{"signal": "truncated"}, {"gate": "tests", "status": "pass", "holds": false}]}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import eq, ge, gt, le, lt, ne
from typing import Literal

from pydantic import Field

from stages.contracts.artifact import Frozen

Sign = Literal["<", "<=", ">", ">=", "==", "!="]
_COMPARE: dict[Sign, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}
OPPOSITE: dict[Sign, Sign] = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


class Comparison(Frozen):
    """Holds when a history metric compares so with `value`."""

    metric: str
    slope: int | None = Field(None, ge=2)
    """Compare the least-squares slope per step over this many trailing steps, not the metric itself."""
    sign: Sign
    value: float

    def holds_at(self, value: float) -> bool:
        """Whether a known value compares with the bound as it should."""
        return _COMPARE[self.sign](value, self.value)


class Signal(Frozen):
    """Holds when the completion's signal is as said. `truncated`: it met the length limit; `empty`: only white space."""

    signal: Literal["truncated", "empty"]
    holds: bool = True


class Status(Frozen):
    """Holds when the gate's status is (`holds: false`: is not) this one. While the gate is unknown, so is this."""

    gate: str
    status: Literal["pass", "fail", "not_reached"]
    holds: bool = True


class Mark(Frozen):
    """Holds when the gate's mark, one of the MARKS of its kind, is as said. A gate that was not reached has no marks.

    While the gate is unknown and its judgement does not hold the mark, so is this.
    """

    gate: str
    mark: str
    holds: bool = True


class AllOf(Frozen):
    """Holds when all parts do; one that does not hold outweighs any that are unknown."""

    all: tuple[Expression, ...] = Field(min_length=1)


class AnyOf(Frozen):
    """Holds when one part does; one that holds outweighs any that are unknown."""

    any: tuple[Expression, ...] = Field(min_length=1)


Leaf = Comparison | Signal | Mark | Status
Expression = Leaf | AllOf | AnyOf


def leaves(expression: Expression) -> Iterator[Leaf]:
    """The leaves of an expression, from left to right."""
    if isinstance(expression, AllOf | AnyOf):
        for part in expression.all if isinstance(expression, AllOf) else expression.any:
            yield from leaves(part)
    else:
        yield expression


def comparisons(expression: Expression) -> tuple[Comparison, ...]:
    """The different comparisons of an expression, from left to right."""
    return tuple(dict.fromkeys(leaf for leaf in leaves(expression) if isinstance(leaf, Comparison)))


def truth(expression: Expression, holds: Callable[[Leaf], bool | None]) -> bool | None:
    """Whether an expression holds; None while that depends on leaves that are unknown. `holds`: the answer for a leaf."""
    if isinstance(expression, AllOf):
        answers = {truth(part, holds) for part in expression.all}
        return False if False in answers else None if None in answers else True
    if isinstance(expression, AnyOf):
        answers = {truth(part, holds) for part in expression.any}
        return True if True in answers else None if None in answers else False
    return holds(expression)


def text(expression: Expression) -> str:
    """The expression as a spec holds it, such as `reward < 0.15 and slope(reward, 60 steps) <= 0`."""
    match expression:
        case AllOf(all=parts):
            return " and ".join(f"({text(part)})" if isinstance(part, AnyOf) else text(part) for part in parts)
        case AnyOf(any=parts):
            return " or ".join(text(part) for part in parts)
        case Comparison():
            quantity = expression.metric if expression.slope is None else f"slope({expression.metric}, {expression.slope} steps)"
            return f"{quantity} {expression.sign} {expression.value:g}"
        case Signal():
            word: str = expression.signal
        case Mark():
            word = f"{expression.gate}.{expression.mark}"
        case Status():
            word = f"{expression.gate}.{expression.status}"
    return word if expression.holds else f"not {word}"


AllOf.model_rebuild()
AnyOf.model_rebuild()
