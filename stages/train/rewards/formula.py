"""Arithmetic that a spec may hold: numbers, named counts, + - * /, brackets, min and max. Parsed into data; nothing is ever evaluated.

formula   = term {("+" | "-") term}
term      = factor {("*" | "/") factor}
factor    = "-" factor | number | name | ("min" | "max") "(" formula {"," formula} ")" | "(" formula ")"
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_CHARS = 200
_TOKEN = re.compile(r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]+)|(?P<sign>[-+*/(),]))", re.ASCII)
_FUNCTIONS = {"min": min, "max": max}


@dataclass(frozen=True)
class Formula:
    """A node of the tree: `operation` is `number`, `name`, `negate`, one of + - * /, `min` or `max`."""

    operation: str
    parts: tuple[Formula, ...] = ()
    number: float = 0.0
    name: str = ""

    def value(self, names: Mapping[str, float]) -> float:
        """The number for these counts, in floating point. Raises ZeroDivisionError; may be infinite or NaN where floats overflow."""
        if self.operation == "number":
            return self.number
        if self.operation == "name":
            return float(names[self.name])
        found = [part.value(names) for part in self.parts]
        match self.operation:
            case "negate":
                return -found[0]
            case "+":
                return found[0] + found[1]
            case "-":
                return found[0] - found[1]
            case "*":
                return found[0] * found[1]
            case "/":
                return found[0] / found[1]
            case _:
                return _FUNCTIONS[self.operation](found)


def parsed(text: str, names: Sequence[str]) -> Formula:
    """The formula's tree. Raises ValueError, with the column, for anything outside the grammar or a name that is not allowed."""
    if len(text) > MOST_CHARS:
        raise ValueError(f"the formula has {len(text)} characters, more than {MOST_CHARS}")
    reader = _Reader(_tokens(text), names)
    found = reader.formula()
    reader.end()
    return found


def _tokens(text: str) -> list[tuple[str, str, int]]:
    """(kind, text, column from 1) of each token, then the end."""
    tokens, place, end = [], 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            place += len(text[place:]) - len(text[place:].lstrip())
            raise ValueError(f"column {place + 1}: {text[place]!r} is no part of a formula")
        tokens.append((found.lastgroup, found[found.lastgroup], found.start(found.lastgroup) + 1))
        place = found.end()
    return [*tokens, ("end", "the end", end + 1)]


class _Reader:
    def __init__(self, tokens: list[tuple[str, str, int]], names: Sequence[str]) -> None:
        self.tokens, self.names, self.place = tokens, names, 0

    def formula(self) -> Formula:
        left = self.term()
        while self.sees("+", "-"):
            left = Formula(self.take()[1], (left, self.term()))
        return left

    def term(self) -> Formula:
        left = self.factor()
        while self.sees("*", "/"):
            left = Formula(self.take()[1], (left, self.factor()))
        return left

    def factor(self) -> Formula:
        kind, text, column = self.take()
        if kind == "number":
            return Formula("number", number=float(text))
        if text in _FUNCTIONS:
            self.expect("(")
            parts = [self.formula()]
            while self.sees(","):
                self.take()
                parts.append(self.formula())
            self.expect(")")
            return Formula(text, tuple(parts))
        if kind == "name":
            if text not in self.names:
                raise ValueError(f"column {column}: {text!r} is no name here; known: {', '.join([*self.names, *_FUNCTIONS])}")
            return Formula("name", name=text)
        if text == "-":
            return Formula("negate", (self.factor(),))
        if text == "(":
            inner = self.formula()
            self.expect(")")
            return inner
        raise ValueError(f"column {column}: a number, a name or a bracket is missing before {text}")

    def sees(self, *signs: str) -> bool:
        kind, text, _ = self.tokens[self.place]
        return kind == "sign" and text in signs

    def take(self) -> tuple[str, str, int]:
        token = self.tokens[self.place]
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def expect(self, sign: str) -> None:
        _, text, column = self.take()
        if text != sign:
            raise ValueError(f"column {column}: {sign!r} is missing before {text}")

    def end(self) -> None:
        kind, text, column = self.tokens[self.place]
        if kind != "end":
            raise ValueError(f"column {column}: {text!r} does not belong here")
