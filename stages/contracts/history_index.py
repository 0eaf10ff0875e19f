"""Where each metric's rows lie in history.parquet, kept in the file's own metadata: whoever has it reads one column instead of four.

Only a table that one attempt wrote and that has each metric at most once a step has an index; its rows are sorted by metric, then by step.
Others are read row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from pydantic import ValidationError

from stages.contracts.artifact import Frozen

INDEX = "octavo.index"
"""Key of the Parquet metadata."""
SORTED_BY = ("metric", "step")
"""Sorting columns that the file declares beside it (Parquet format, `RowGroup.sorting_columns`): without them the index is not believed."""
MOST = 256
"""Stretches in an index: of steps that keep no distance there are as many as steps, and an index as long as its table helps nobody."""

LARGEST = 2**53
"""Steps beyond it have no index: numpy counts the length of a range with floats."""

Stretch = tuple[int, int, int]
"""First step, last step (both included) and the distance of neighbours, 1 or more; a single step is its own first and last."""


class HistoryIndex(Frozen):
    """Metrics in the order of their rows, and the steps at which each was logged."""

    metrics: tuple[tuple[str, int], ...]
    """Name, and which of `steps` holds: most metrics are logged at the same steps."""
    steps: tuple[tuple[Stretch, ...], ...]

    @classmethod
    def of(cls, logged: Mapping[str, Sequence[int]]) -> Self | None:
        """`logged`: rising steps by metric, in the order of the table. None when there are more than MOST stretches."""
        places: dict[tuple[Stretch, ...], int] = {}
        metrics = []
        for name, steps in logged.items():
            stretches = tuple(_stretches(steps))
            if len(stretches) > MOST or not _rise(stretches):
                return None
            metrics.append((name, places.setdefault(stretches, len(places))))
        return cls(metrics=tuple(metrics), steps=tuple(places)) if sum(map(len, places)) <= MOST else None

    @classmethod
    def read(cls, text: str, rows: int) -> Self:
        """The index of a table with so many rows. Raises ValueError when it cannot be its index."""
        try:
            index = cls.model_validate_json(text)
        except ValidationError as error:
            raise ValueError(f"{INDEX} is not an index: {error.errors()[0]['msg']}") from None
        if len({name for name, _ in index.metrics}) < len(index.metrics) or any(not 0 <= at < len(index.steps) for _, at in index.metrics):
            raise ValueError(f"{INDEX} names a metric twice, or steps that it does not hold")
        if not all(_rise(steps) for steps in index.steps):
            raise ValueError(f"{INDEX} has steps that do not rise")
        if sum(index.rows(at) for _, at in index.metrics) != rows:
            raise ValueError(f"{INDEX} counts other rows than the table has")
        return index

    def rows(self, place: int) -> int:
        """How many steps one of `steps` holds."""
        return sum((last - first) // distance + 1 for first, last, distance in self.steps[place])


def arranged(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], HistoryIndex] | None:
    """Rows of HISTORY_COLUMNS in the order of an index, and the index; None where a table cannot have one."""
    if not rows or len({row["attempt"] for row in rows}) > 1:
        return None
    by_metric: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        by_metric.setdefault(row["metric"], {})[row["step"]] = row
    if sum(map(len, by_metric.values())) < len(rows):
        return None
    ordered = {name: dict(sorted(found.items())) for name, found in sorted(by_metric.items())}
    index = HistoryIndex.of({name: list(found) for name, found in ordered.items()})
    return None if index is None else ([row for found in ordered.values() for row in found.values()], index)


def _rise(stretches: Sequence[Stretch]) -> bool:
    before = -LARGEST
    for first, last, distance in stretches:
        if not before < first <= last < LARGEST or distance < 1 or (last - first) % distance:
            return False
        before = last
    return True


def _stretches(steps: Sequence[int]) -> Iterator[Stretch]:
    at = 0
    while at < len(steps):
        first, end = steps[at], at + 1
        distance = steps[end] - first if end < len(steps) else 1
        while end < len(steps) and steps[end] - steps[end - 1] == distance:
            end += 1
        yield first, steps[end - 1], distance
        at = end
