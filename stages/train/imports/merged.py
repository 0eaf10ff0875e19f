"""Names under which several things were logged: TRL logs each reward function under its `__name__`, and equal names merge."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from stages.train.imports.cells import NoNumber, number
from stages.train.imports.log import Column, Log

_PART = re.compile(r"(?P<prefix>.*/)?rewards/(?P<name>[^/]+)/mean")
_TOLERANCE = 1e-4


def merged_names(log: Log) -> Iterator[str]:
    """A sentence when the total reward is not the sum of its parts, on every row that holds them all."""
    parts = {name: found for name in log.columns if (found := _PART.fullmatch(name))}
    prefixes = {found["prefix"] or "" for found in parts.values()}
    for prefix in sorted(prefixes):
        mine = sorted(name for name, found in parts.items() if (found["prefix"] or "") == prefix)
        total = log.columns.get(f"{prefix}reward")
        pairs = list(_pairs(total, [log.columns[name] for name in mine])) if total is not None else []
        wrong = [(whole, added) for whole, added in pairs if abs(whole - added) > _TOLERANCE * max(1.0, abs(whole))]
        if pairs and len(wrong) > len(pairs) / 2:
            names = ", ".join(parts[name]["name"] for name in mine)
            whole, added = wrong[0]
            yield (
                f"merged: the reward ({whole:.4g} in the first such row) is not the sum of its logged parts {names} ({added:.4g}), so "
                "reward functions share a name, have weights, or score some completions only: the parts do not make the whole"
            )


def _pairs(total: Column, parts: list[Column]) -> Iterator[tuple[float, float]]:
    """(total, sum of parts) of the rows in which all of them are numbers."""
    cells = [dict(zip(column.rows, column.cells, strict=True)) for column in parts]
    for row, cell in zip(total.rows, total.cells, strict=True):
        try:
            found = [number(cell), *(number(column.get(row)) for column in cells)]
        except NoNumber:
            continue
        known = [value for value in found if value is not None and math.isfinite(value)]
        if len(known) == len(found):
            yield known[0], sum(known[1:])
