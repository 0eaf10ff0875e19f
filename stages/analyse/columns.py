"""The metrics of a history as columns, cut out of its rows when one is first asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.contracts.series import Cell

KINDS = ("value", "nonfinite", "null")
"""States of a cell, by their numbers in `Column.kinds`."""


@dataclass(frozen=True)
class Column:
    """One metric: parallel arrays, in order of steps. `values` is NaN where the state is not `value`."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    kinds: NDArray[np.int8] | None
    """Places in `value`, `nonfinite`, `null`; None when every cell is a value."""

    @property
    def states(self) -> NDArray[np.object_]:
        names = np.array(KINDS, dtype=object)
        return names[np.zeros(len(self.steps), dtype=np.int8) if self.kinds is None else self.kinds]

    @property
    def bad(self) -> NDArray[np.int64]:
        """Steps that are logged and not finite."""
        return self.steps[:0] if self.kinds is None else self.steps[self.kinds == 1]

    @property
    def null(self) -> NDArray[np.int64]:
        """Steps that are logged as "does not apply"."""
        return self.steps[:0] if self.kinds is None else self.steps[self.kinds == 2]

    def cells(self) -> tuple[Cell, ...]:
        """The same as plain tuples, with None for what is no finite number."""
        plain = self.values.astype(object)
        plain[np.isnan(self.values)] = None
        return tuple(zip(self.steps.tolist(), plain.tolist(), self.states.tolist(), strict=True))

    def varies(self) -> bool:
        """Whether two cells differ in value or state."""
        if not len(self.values):
            return False
        same = (self.values == self.values[0]) | (np.isnan(self.values) & np.isnan(self.values[0]))
        return not bool(same.all()) or (self.kinds is not None and bool((self.kinds != self.kinds[0]).any()))


def told(values: NDArray[np.float64], kinds: NDArray[np.int8] | None) -> tuple[NDArray[np.float64], NDArray[np.int8] | None]:
    """Values and kinds as a column has them, from those of a file: others write NaN under the state `value`, and numbers under `null`."""
    finite = np.isfinite(values)
    if finite.all() and (kinds is None or not kinds.any()):
        return values, None
    known = np.zeros(len(values), dtype=np.int8) if kinds is None else kinds
    known = np.where((known == 0) & ~finite, np.int8(1), known)
    return np.where(known == 0, values, np.nan), known


class Columns(Mapping[str, Column]):
    """The columns of a table of (metric, step, value) rows, by name; each is made when it is first asked for: of forty logged metrics, ten
    are."""

    def __init__(self, names: Iterable[str], wanted: Collection[str] | None) -> None:
        self._names = dict.fromkeys(sorted(name for name in names if wanted is None or name in wanted))
        self._made: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @abstractmethod
    def _make(self, name: str) -> Column: ...

    @property
    @abstractmethod
    def odd(self) -> frozenset[str]:
        """Metrics with a cell that is logged and not finite."""

    @property
    @abstractmethod
    def repeated(self) -> int:
        """Rows of the table that repeat a metric and a step; of those the last one counts."""

    @property
    @abstractmethod
    def every_step(self) -> NDArray[np.int64]:
        """All steps at which anything was logged, wanted or not, rising."""


class ScatteredColumns(Columns):
    """Of a table whose rows lie in any order."""

    def __init__(
        self,
        codes: NDArray[Any],
        names: Sequence[str],
        steps: NDArray[np.int64],
        values: NDArray[np.float64],
        kinds: NDArray[np.int8] | None,
        wanted: Collection[str] | None = None,
    ) -> None:
        """Rows in the order of the file; each name has a row. `kinds` as in Column. `wanted`: there are only these columns; None: all."""
        super().__init__(names, wanted)
        self._codes, self._steps, self._values, self._kinds, self._width = codes, steps, values, kinds, len(names)
        self._places = {name: code for code, name in enumerate(names)}
        self._grid = _is_grid(codes, steps, len(names))
        """Every step has every metric, in one order: columns lie at equal distances."""

    def _make(self, name: str) -> Column:
        code = self._places[name]
        if self._grid:
            width = self._width
            first = int(np.flatnonzero(self._codes[:width] == code)[0])
            kinds = None if self._kinds is None else self._kinds[first::width]
            column = Column(self._grid_steps, self._values[first::width].copy(), kinds)
        else:
            rows = self._rows(code)
            column = Column(self._steps[rows], self._values[rows], None if self._kinds is None else self._kinds[rows])
        if column.kinds is not None and not column.kinds.any():
            column = Column(column.steps, column.values, None)
        return column

    @cached_property
    def _grid_steps(self) -> NDArray[np.int64]:
        return self._steps[:: self._width].copy()

    def _rows(self, code: int) -> NDArray[np.int64]:
        """Places of a metric's rows, by rising steps; of rows of one step the last."""
        rows = np.flatnonzero(self._codes == code)
        steps = self._steps[rows]
        if (steps[1:] > steps[:-1]).all():
            return rows
        order = np.argsort(steps, kind="stable")
        rows, steps = rows[order], steps[order]
        last = np.ones(len(rows), dtype=bool)
        last[:-1] = steps[1:] != steps[:-1]
        return rows[last]

    @cached_property
    def odd(self) -> frozenset[str]:
        if self._kinds is None:
            return frozenset()
        codes = set(np.unique(self._codes[self._kinds == 1]).tolist())
        return frozenset(name for name in self if self._places[name] in codes and len(self[name].bad))

    @cached_property
    def every_step(self) -> NDArray[np.int64]:
        if self._grid:
            return self._grid_steps
        changed = np.ones(len(self._steps), dtype=bool)
        changed[1:] = self._steps[1:] != self._steps[:-1]  # rows come step by step, so most repeats stand side by side and need no sorting
        found = self._steps[changed]
        return found if (found[1:] > found[:-1]).all() else np.unique(found)

    @cached_property
    def repeated(self) -> int:
        if self._grid or not len(self._steps):
            return 0
        first, width = int(self._steps.min()), self._width
        room = (int(self._steps.max()) - first + 1) * width
        keys = (self._steps - first) * width + self._codes
        if room > 20 * len(keys) + 1_000_000:
            return len(keys) - len(np.unique(keys))
        seen = np.zeros(room, dtype=bool)
        seen[keys] = True
        return len(keys) - int(np.count_nonzero(seen))


def _is_grid(codes: NDArray[Any], steps: NDArray[np.int64], width: int) -> bool:
    """Whether the rows are blocks of one step each, with every metric once and in the same order, steps rising."""
    if not width or len(codes) % width or len(set(codes[:width].tolist())) != width:
        return False
    blocks, order = steps.reshape(-1, width), codes.reshape(-1, width)
    rising = bool((blocks[1:, 0] > blocks[:-1, 0]).all())
    return rising and bool((order == order[0]).all()) and bool((blocks == blocks[:, :1]).all())
