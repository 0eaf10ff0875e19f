"""Corpus `expressions`, the quickstart's task: a phrase such as `double then negate then add 3` becomes a Python expression in x."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stages.train.corpus import Shipped

POINTS = (0, 1, 2, 3, 5, -4)
"""The tests of a row are the values of its expression at these x."""


@dataclass(frozen=True)
class Operation:
    phrase: str
    expression: Callable[[str, int], str]
    value: Callable[[int, int], int]


OPERATIONS = (
    Operation("add {k}", lambda e, k: f"({e}+{k})", lambda x, k: x + k),
    Operation("subtract {k}", lambda e, k: f"({e}-{k})", lambda x, k: x - k),
    Operation("multiply by {k}", lambda e, k: f"({e}*{k})", lambda x, k: x * k),
    Operation("double", lambda e, k: f"({e}*2)", lambda x, k: x * 2),
    Operation("square", lambda e, k: f"({e}**2)", lambda x, k: x**2),
    Operation("negate", lambda e, k: f"(-{e})", lambda x, k: -x),
)


@dataclass(frozen=True)
class Problem:
    prompt: str
    answer: str
    values: tuple[int, ...]
    """Value of the right expression at each of POINTS."""

    def row(self, name: str) -> dict[str, Any]:
        """The problem as a row of a prompt set."""
        tests = [{"arguments": [x], "expected": value} for x, value in zip(POINTS, self.values, strict=True)]
        return {"id": name, "prompt": self.prompt, "answer": self.answer, "tests": tests}


def problem(steps: list[tuple[Operation, int]]) -> Problem:
    """The problem that applies the operations in order to x."""
    expression, values = "x", list(POINTS)
    for operation, k in steps:
        expression = operation.expression(expression, k)
        values = [operation.value(value, k) for value in values]
    phrase = " then ".join(operation.phrase.format(k=k) for operation, k in steps)
    return Problem(prompt=phrase + "\n", answer=expression[1:-1], values=tuple(values))


def problems(seed: int) -> Iterator[Problem]:
    """An endless stream of problems of one to three operations, with repeats."""
    rng = random.Random(seed)
    while True:
        count = rng.choice([1, 2, 2, 3])
        yield problem([(rng.choice(OPERATIONS), rng.randint(1, 9)) for _ in range(count)])


def with_fault(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """A mistake people make: lost parentheses, another operator or digit, a syntax error, or only `x`."""
    expression = problem.answer
    kind = rng.choice(["parentheses", "operator", "digit", "syntax", "lazy"])
    bare = expression.replace("(", "").replace(")", "")
    if kind == "parentheses" and bare != expression:
        return kind, bare
    if kind in ("parentheses", "operator"):
        swapped = {"+": "-", "-": "+", "*": "+"}
        places = [
            i
            for i, sign in enumerate(expression)
            if sign in swapped and i > 0 and expression[i - 1] not in "(*" and expression[i : i + 2] != "**"
        ]
        return "operator", _replaced(expression, places, lambda sign: swapped[sign], rng)
    if kind == "digit":
        places = [i for i, sign in enumerate(expression) if sign.isdigit()]
        return kind, _replaced(expression, places, lambda _: str(rng.randint(1, 9)), rng)
    if kind == "syntax":
        return kind, rng.choice([expression + ")", expression[:-1], "(" + expression, "=" + expression])
    return kind, "x"


def _replaced(text: str, places: list[int], by: Callable[[str], str], rng: random.Random) -> str:
    if not places:
        return "x"
    i = rng.choice(places)
    return text[:i] + by(text[i]) + text[i + 1 :]


SHIPPED = Shipped(problem([(OPERATIONS[3], 1), (OPERATIONS[0], 3)]), seed=5000, train=1000, heldout=192)
