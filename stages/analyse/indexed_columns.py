"""The columns of a history that has an index: slices of one array."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stages.analyse.columns import Column, Columns, told
from stages.contracts.history_index import HistoryIndex


class IndexedColumns(Columns):
    """Of a table that is sorted by metric and step, where its index says that they lie."""

    def __init__(
        self,
        index: HistoryIndex,
        values: NDArray[np.float64],
        kinds: NDArray[np.int8] | None,
        wanted: Collection[str] | None = None,
    ) -> None:
        """`kinds` as in Column. `wanted`: there are only these columns; None: all."""
        super().__init__((name for name, _ in index.metrics), wanted)
        self._values, self._kinds = values, kinds
        self._steps = [
            np.concatenate([a + by * np.arange((b - a) // by + 1, dtype=np.int64) for a, b, by in steps]) for steps in index.steps
        ]
        self._places: dict[str, tuple[int, slice]] = {}
        begin = 0
        for name, at in index.metrics:
            end = begin + len(self._steps[at])
            self._places[name] = at, slice(begin, end)
            begin = end

    def _make(self, name: str) -> Column:
        at, rows = self._places[name]
        return Column(self._steps[at], *told(self._values[rows], None if self._kinds is None else self._kinds[rows]))

    @cached_property
    def odd(self) -> frozenset[str]:
        return frozenset(name for name in self if len(self[name].bad))

    @property
    def repeated(self) -> int:
        return 0

    @cached_property
    def every_step(self) -> NDArray[np.int64]:
        return self._steps[0] if len(self._steps) == 1 else np.unique(np.concatenate([*self._steps, np.empty(0, dtype=np.int64)]))
