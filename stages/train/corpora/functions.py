"""Corpus `functions`: the phrases of `expressions` as problems for a model that follows instructions, which writes a Python function."""

from __future__ import annotations

import random

from stages.train.corpora import expressions
from stages.train.corpus import Problem, Shipped

_TASK = """\
Write a Python function `f(x)` that takes a number and returns another one. It applies these steps to x, one after the other: {phrase}.
Answer with one Python code block and nothing else.
"""


def _asked(plain: Problem) -> Problem:
    row = plain.row
    return Problem({**row, "prompt": _TASK.format(phrase=row["prompt"].strip()), "answer": _fenced(row["answer"])}, plain)


def _fenced(expression: str) -> str:
    return f"```python\ndef f(x):\n    return {expression}\n```"


def problem(rng: random.Random) -> Problem:
    """One to three operations."""
    return _asked(expressions.problem(rng))


def with_fault(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """A fault of `expressions` inside the function."""
    kind, expression = expressions.with_fault(problem.parts, rng)
    return kind, _fenced(expression)


SHIPPED = Shipped(_asked(expressions.SHIPPED.example), seed=6000, train=261, heldout=32)
