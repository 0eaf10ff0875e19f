"""Derived metrics: arithmetic over logged metrics, such as `reward_std / reward`. A text is read by this grammar and never runs.

sum := product (("+" | "-") product)*    product := part (("*" | "/") part)*    part := "-" part | "(" sum ")" | metric | number

Names of metrics hold dashes (`gate.no-prose.score`), so a minus between two metrics has spaces around it.
"""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

MAX_CHARS, MAX_DEPTH = 300, 20
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*)"
    r"|(?P<sign>[-+*/()])|(?P<stray>\S))"
)
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
Value = Callable[[Mapping[str, Any]], Any]
"""From the values of metrics (numbers, or pandas series) to the value of the formula."""


class FormulaError(ValueError):
    """Why a text is no formula."""


class Formula(NamedTuple):
    """A text that was read."""

    metrics: tuple[str, ...]
    """Names in it, from left to right, each once."""
    value: Value


def read_formula(text: str) -> Formula:
    """Raises FormulaError."""
    if len(text) > MAX_CHARS:
        raise FormulaError(f"a formula has at most {MAX_CHARS} characters")
    tokens, names = deque(_TOKEN.finditer(text)), dict[str, None]()

    def chain(signs: str, inner: Callable[[int], Value], depth: int) -> Value:
        """Parts between the operators of one rank, joined from the left."""
        whole = inner(depth)
        while tokens and tokens[0]["sign"] and tokens[0]["sign"] in signs:
            whole = _joined(_OPERATORS[tokens.popleft()["sign"]], whole, inner(depth))
        return whole

    def added(depth: int) -> Value:
        return chain("+-", lambda depth: chain("*/", part, depth), depth)

    def part(depth: int) -> Value:
        if not tokens:
            raise FormulaError("the formula ends too early")
        token = tokens.popleft()
        if depth > MAX_DEPTH:
            raise FormulaError(f"the formula is nested more than {MAX_DEPTH} deep")
        if token["number"]:
            number = float(token["number"])
            return lambda values: number
        if name := token["name"]:
            names[name] = None
            return lambda values: values[name]
        if token["sign"] == "-":
            inside = part(depth + 1)
            return lambda values: -inside(values)
        if token["sign"] == "(":
            inside = added(depth + 1)
            if not tokens or tokens.popleft()["sign"] != ")":
                raise FormulaError("a bracket is never closed")
            return inside
        raise FormulaError(f"`{token[0].strip()}` cannot stand here")

    value = added(0)
    if tokens:
        raise FormulaError(f"`{tokens[0][0].strip()}` cannot follow here")
    if not names:
        raise FormulaError("the formula names no metric")
    return Formula(tuple(names), value)


def _joined(join: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    return lambda values: join(left(values), right(values))


def logged_inputs(name: str, derived: Mapping[str, str]) -> frozenset[str]:
    """The logged metrics that a metric is made of; of a logged one itself. `derived`: formulas by name, each of earlier ones only."""
    if name not in derived:
        return frozenset([name])
    return frozenset().union(*(logged_inputs(inner, derived) for inner in read_formula(derived[name]).metrics if inner != name))
