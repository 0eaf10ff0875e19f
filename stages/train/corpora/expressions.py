"""Corpus `expressions`, the quickstart's task: a phrase such as `double then negate then add 3` becomes a Python expression in x."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from stages.train.corpus import Problem, Shipped

POINTS = (0, 1, 2, 3, 5, -4)
"""The tests of a row are the values of its expression at these x."""
Operation = tuple[str, str, Callable[[int, int], int]]
OPERATIONS: tuple[Operation, ...] = (
    ("add {k}", "({e}+{k})", lambda x, k: x + k),
    ("subtract {k}", "({e}-{k})", lambda x, k: x - k),
    ("multiply by {k}", "({e}*{k})", lambda x, k: x * k),
    ("double", "({e}*2)", lambda x, k: x * 2),
    ("square", "({e}**2)", lambda x, k: x**2),
    ("negate", "(-{e})", lambda x, k: -x),
)
_PLACES = {"operator": re.compile(r"(?<=[^(*])(?:[+-]|\*(?!\*))"), "digit": re.compile("[0-9]")}
"""Where a character may be replaced by another one: two-sided operators but `**`, and digits."""
_OTHER_SIGN = {"+": "-", "-": "+", "*": "+"}


def composed(steps: Sequence[tuple[Operation, int]]) -> Problem:
    """The problem that applies the operations in order to x."""
    expression, values = "x", list(POINTS)
    for (_, code, value_of), k in steps:
        expression = code.format(e=expression, k=k)
        values = [value_of(value, k) for value in values]
    phrase = " then ".join(words.format(k=k) for (words, _, _), k in steps)
    tests = [{"arguments": [x], "expected": value} for x, value in zip(POINTS, values, strict=True)]
    return Problem({"prompt": phrase + "\n", "answer": expression[1:-1], "tests": tests})


def problem(rng: random.Random) -> Problem:
    """One to three operations."""
    return composed([(rng.choice(OPERATIONS), rng.randint(1, 9)) for _ in range(rng.choice([1, 2, 2, 3]))])


def with_fault(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """A mistake people make: lost parentheses, another operator or digit, a syntax error, or only `x`."""
    text = problem.row["answer"]
    kind = rng.choice(["parentheses", "operator", "digit", "syntax", "lazy"])
    bare = text.replace("(", "").replace(")", "")
    if kind == "parentheses" and bare != text:
        return kind, bare
    if kind == "syntax":
        return kind, rng.choice([text + ")", text[:-1], "(" + text, "=" + text])
    kind = "operator" if kind == "parentheses" else kind
    places = [match.start() for match in _PLACES[kind].finditer(text)] if kind in _PLACES else []
    if not places:
        return kind, "x"
    place = rng.choice(places)
    other = _OTHER_SIGN[text[place]] if kind == "operator" else str(rng.randint(1, 9))
    return kind, text[:place] + other + text[place + 1 :]


SHIPPED = Shipped(composed([(OPERATIONS[3], 1), (OPERATIONS[0], 3)]), seed=5000, train=1000, heldout=192)
