"""Steps of logs whose only index is a printed epoch: rows of one printed epoch keep their order, and each row a step of its own."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import NamedTuple


class Spread(NamedTuple):
    steps: dict[int, int]
    """Row -> step."""
    within: int
    """A row's true step is nearer than this to the one it was given; 0 when every printed epoch has one row."""
    tied: bool
    """More rows print one epoch than there are steps up to the next: these share a step."""


def spread(steps: dict[int, int], target: int) -> Spread:
    """Rows of one printed epoch, evenly from its step up to the next printed one; those of the last one are given as much room as the
    narrowest before it had, within the target. Rows that find no room keep their step. `steps`: row of the log -> rounded step."""
    blocks = [(step, [row for row, _ in rows]) for step, rows in groupby(sorted(steps.items()), key=lambda row: row[1])]
    if all(len(rows) == 1 for _, rows in blocks):
        return Spread(steps, 0, False)
    widths = [after - before for (before, _), (after, _) in pairwise(blocks) if after > before]
    found: dict[int, int] = {}
    tied = False
    for (step, rows), (following, _) in zip(blocks, [*blocks[1:], (0, [])], strict=True):
        last_room = min([*widths, max(1, target - step + 1)]) if widths else 1
        room = following - step if following > step else last_room
        fits = len(rows) <= room
        tied |= not fits
        found |= {row: step + (place * room // len(rows) if fits else 0) for place, row in enumerate(rows)}
    return Spread(found, max(widths, default=0), tied)
