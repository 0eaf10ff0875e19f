"""Changes of level in a series of correlated rows, found by moving sums (MOSUM: Eichinger and Kirch 2018).

The mean of g rows before a row and of g rows from it on differ by something everywhere: noise, its memory and a slow trend see to that. A
change is a difference that is many times as large as the others of the same series and g, so no model of the noise is needed. Short and
long g are tried, because a fall may take one step or a hundred. Positions are those of rows; a log may hold each tenth step only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
SHORTEST, LEAST_ROWS = 5, 30
"""Rows on each side of a change, and rows of a series of which changes can be told from noise."""
_LONGEST_JUMP = 40
_LIKELIHOOD = 7.35
"""95% of the likelihood ratio of a change's place lies below it (Hansen 2000)."""
_BY_CHANCE = 1e-3
_PLACES = 30
_RANKED = 0.75


class Change(NamedTuple):
    first: int
    """Row at which the new level begins, or the middle of a change that takes several rows."""
    low: int
    high: int
    """Rows between which it lies with 95% confidence."""
    before: float
    after: float
    """Means of the rows around low..high."""
    errors: float
    """How many times its usual size the difference has; infinite in a series that moves nowhere else."""
    rows: int
    """Rows on each side that were compared."""


class _Place(NamedTuple):
    row: int
    rows: int
    errors: float
    usual: float
    """Usual difference of this many rows."""


def fall(values: Numbers, errors: float, share: float) -> Change | None:
    """The clearest fall, sudden or slow: `errors` times the usual difference, and `share` of the larger level. A series that becomes
    constant for good at its lowest value has fallen too, however few rows it had before."""
    places = [*_places(values, _differences, lambda n: n // 6, lambda size: -size, errors), *_slow(values, errors)]
    changes = [_located(values, place) for place in places]
    kept = [change for change in changes if change.before > change.after and _is_level(values, change, share)]
    return max(kept, key=lambda change: change.errors, default=None) or _death(values, share)


def jump(values: Numbers, errors: float, share: float) -> Change | None:
    """The clearest sudden change, up or down: what a line through the rows around it leaves unexplained."""
    changes = [_located(values, place) for place in _places(values, _jumps, lambda n: min(n // 12, _LONGEST_JUMP), np.abs, errors)]
    kept = [change for change in changes if _is_level(values, change, share)]
    return max(kept, key=lambda change: change.errors, default=None)


def difference_at(values: Numbers, low: int, high: int, rows: int) -> tuple[float, float, float] | None:
    """(mean of `rows` rows before low, mean of as many from high on, how many times its usual size their difference has, the usual trend
    left out); None where a side has fewer than three rows."""
    before, after = _sides(values, low, high, rows)
    if min(len(before), len(after)) < 3:
        return None
    size = min(rows, max(SHORTEST, len(values) // 6))
    others = _differences(values, size)
    places = np.arange(size, len(values) - size + 1)
    others = others[(places <= low - size) | (places >= high + size)]
    trend = float(np.median(others)) if len(others) else 0.0
    usual = _spread(others)
    moved = abs(float(after.mean() - before.mean()) - trend)
    return float(before.mean()), float(after.mean()), moved / usual if usual > 0 else math.inf if moved > 0 else 0.0


def _is_level(values: Numbers, change: Change, share: float) -> bool:
    """Whether it is large beside the levels, and of most rows: by rank three quarters of the rows before lie beyond those after, so that
    a few outliers are no level."""
    before, after = (np.sort(side) for side in _sides(values, change.low, change.high, change.rows))
    lower = (np.searchsorted(after, before, "left") + np.searchsorted(after, before, "right")).mean() / 2 / len(after)
    size = abs(change.after - change.before)
    return bool(size >= share * max(abs(change.before), abs(change.after)) and max(lower, 1 - lower) >= _RANKED)


def _sides(values: Numbers, low: int, high: int, rows: int) -> tuple[Numbers, Numbers]:
    return values[max(0, low - rows) : low], values[high : high + rows]


def _places(
    values: Numbers,
    measure: Callable[[Numbers, int], Numbers],
    longest: Callable[[int], int],
    sized: Callable[[Numbers], Numbers],
    errors: float,
) -> Iterator[_Place]:
    """The largest difference of each length of comparison that is many times the usual one. Short series need more: their usual
    difference is known less well."""
    n, usual, rows = len(values), 0.0, SHORTEST
    if n < LEAST_ROWS:
        return
    while rows <= max(SHORTEST, longest(n)):
        others = measure(values, rows)
        sizes, places = sized(others), np.arange(rows, n - rows + 1)
        best = int(np.argmax(sizes))
        distance = np.abs(places - places[best])
        far = distance >= 2 * rows if np.count_nonzero(distance >= 2 * rows) >= 2 * rows else distance >= rows
        # noise without memory shrinks with the root of the rows; no less is expected of that of more rows
        usual = max(usual * math.sqrt(1 / 1.6), _spread(others[far]))
        row = int(places[best])
        spread = values[row - rows : row].var(ddof=1) + values[row : row + rows].var(ddof=1)
        here = math.sqrt(spread / rows) * (2 if measure is _jumps else 1)  # the noise may be larger here than elsewhere
        ratio = float(sizes[best]) / max(usual, here) if max(usual, here) > 0 else math.inf
        if sizes[best] > 1e-9 * np.abs(values).max() and ratio > errors * (1 + 20 / n):
            yield _Place(row, rows, ratio, max(usual, here))
        rows = math.ceil(rows * 1.6)


def _slow(values: Numbers, errors: float) -> Iterator[_Place]:
    """Falls over a large part of a series, of which hardly any row lies elsewhere: the usual difference is that of what is sudden."""
    n = len(values)
    if n < 2 * LEAST_ROWS:
        return
    short = max(SHORTEST, min(n // 12, _LONGEST_JUMP))
    sudden = _spread(_jumps(values, short))
    for rows in (n // 5, n // 4, n // 3):
        sizes, usual = -_differences(values, rows), sudden * math.sqrt(short / rows)
        best = int(np.argmax(sizes))
        ratio = float(sizes[best]) / usual if usual > 0 else math.inf
        if sizes[best] > 1e-9 * np.abs(values).max() and ratio > errors * (1 + 40 / n):
            yield _Place(best + rows, rows, ratio, usual)


def _spread(differences: Numbers) -> float:
    """Standard deviation around the median, which is what a steady trend makes of each difference; by the median distance, so that another
    change elsewhere does not hide this one, or by squares where more than half of the differences are equal."""
    if not len(differences):
        return 0.0
    distances = np.abs(differences - np.median(differences))
    return float(1.4826 * np.median(distances) or np.sqrt(np.mean(distances**2)))


def _sums(values: Numbers) -> Numbers:
    sums: Numbers = np.concatenate([[0.0], np.cumsum(values - values.mean())])
    return sums


def _differences(values: Numbers, rows: int) -> Numbers:
    """By place: mean of `rows` rows from it on minus that of as many before it."""
    sums = _sums(values)
    means = (sums[rows:] - sums[:-rows]) / rows
    differences: Numbers = means[rows:] - means[:-rows]
    return differences


def _jumps(values: Numbers, rows: int) -> Numbers:
    """The same after a line with one slope on both sides: what is sudden."""
    sums, weighted = _sums(values), np.concatenate([[0.0], np.cumsum((values - values.mean()) * np.arange(len(values)))])
    starts = np.arange(len(values) - rows + 1)
    inner = weighted[rows:] - weighted[:-rows] - (starts + (rows - 1) / 2) * (sums[rows:] - sums[:-rows])
    slopes = inner / (rows * (rows * rows - 1) / 12)
    jumps: Numbers = _differences(values, rows) - (slopes[rows:] + slopes[:-rows]) / 2 * rows
    return jumps


def _located(values: Numbers, place: _Place) -> Change:
    """Where the change lies: all ramps, a step among them, whose fit to the rows around is not clearly worse than the best one's. Few
    places are tried in a long stretch, then as many within those that are near."""
    rows = place.rows
    start = place.row - rows
    around = values[start : place.row + rows]
    variance = place.usual**2 * rows / 2  # of one row, its memory included
    low, high, spacing = 1, len(around) - 1, math.inf
    while spacing > 1:
        places = np.unique(np.linspace(low, high, _PLACES).round().astype(int))
        begins, lasts = (side.ravel() for side in np.meshgrid(places, places, indexing="ij"))
        begins, lasts = begins[begins <= lasts], lasts[begins <= lasts]
        explained = _explained(around, begins, lasts)
        near = explained >= explained.max() - _LIKELIHOOD * variance - 1e-9 * len(around) * around.var()
        best = int(np.argmax(explained))
        coarser, spacing = spacing, float(np.diff(places).max(initial=1))
        if spacing >= coarser:  # as wide as before: it takes many rows
            break
        margin = int(spacing) if spacing > 1 else 0
        low, high = max(1, int(begins[near].min()) - margin), min(len(around) - 1, int(lasts[near].max()) + margin)
    middle = start + int(begins[best] + lasts[best]) // 2
    before, after = (float(side.mean()) for side in _sides(values, start + low, start + high, rows))
    return Change(middle, start + low, start + high, before, after, place.errors, rows)


def _explained(around: Numbers, begins: NDArray[np.int_], lasts: NDArray[np.int_]) -> Numbers:
    """Sum of squares that each ramp explains: the old level before `begins`, the new one from `lasts` on, a line between."""
    weights = np.clip((np.arange(len(around))[None, :] - begins[:, None] + 1) / (lasts - begins + 1)[:, None], 0.0, 1.0)
    weights -= weights.mean(axis=1, keepdims=True)
    explained: Numbers = (weights @ (around - around.mean())) ** 2 / np.maximum((weights**2).sum(axis=1), 1e-12)
    return explained


def _death(values: Numbers, share: float) -> Change | None:
    """The row from which on a series is constant at its lowest value, where chance does not explain it: some rows had the value before."""
    differing = np.flatnonzero(values != values[-1])
    if not len(differing) or values[-1] > values.min():
        return None
    first = int(differing[-1]) + 1
    rows, equal = len(values) - first, (first - len(differing) + 1) / (first + 1)
    if equal ** (rows / 2) > _BY_CHANCE:  # half of the rows: neighbours are alike
        return None
    compared = min(first, _LONGEST_JUMP)
    before, after = float(values[first - compared : first].mean()), float(values[-1])
    if before - after < share * max(abs(before), abs(after)):
        return None
    high = first + math.floor(math.log(0.05) / math.log(equal)) if equal > 0.05 else first
    return Change(first, first, min(high, len(values) - 1), before, after, math.inf, compared)
