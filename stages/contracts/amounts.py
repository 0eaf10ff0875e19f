"""Amounts in sentences, and comparisons with a threshold that rounding does not decide."""

from __future__ import annotations

import math

_ROUNDING = 1e-9
"""Relative: means of a few thousand rows are more exact than this, and no threshold is meant more exactly."""


def above(found: float, limit: float) -> bool:
    """Whether a mean is larger than its threshold by more than the rounding of its sum: a mean of 0.3 exactly is never above 0.3."""
    return found > limit and not math.isclose(found, limit, rel_tol=_ROUNDING)


def below(found: float, limit: float) -> bool:
    """Whether a mean is smaller than its threshold by more than the rounding of its sum."""
    return found < limit and not math.isclose(found, limit, rel_tol=_ROUNDING)


def counted(count: int, noun: str) -> str:
    """`1 row`, `3 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def stretch(first: int, last: int) -> str:
    """`step 5`, `steps 5-14`."""
    return f"step {first}" if first == last else f"steps {first}-{last}"


def end(first: int, last: int, window: int) -> str:
    """The end of a log of the steps first..last: `the last 10 steps`, or all of a log that is no longer than the window."""
    return stretch(first, last) if last - first + 1 <= window else at_end(window)


def at_end(window: int) -> str:
    """`the last step`, `the last 6 steps`."""
    return "the last step" if window == 1 else f"the last {window} steps"
