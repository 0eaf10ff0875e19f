"""Numbers as they are printed beside a bound: rounding never moves one to the other side of it."""

from __future__ import annotations


def beside(number: float, bound: float, *, digits: int = 3) -> str:
    """So many significant digits, or as many more as it takes for what is printed to lie on the number's own side of the bound."""
    for many in range(digits, 17):
        text = f"{number + 0.0:.{many}g}"  # of the two zeros there is one
        if (float(text) > bound) == (number > bound) and (float(text) < bound) == (number < bound):
            return text
    return repr(number)


def written(bound: float) -> str:
    """A bound as a spec holds it: no digit that anyone would write is lost."""
    return f"{bound:.15g}"
