"""Tables -> Series: what detectors see of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stages.analyse.columns import Columns
from stages.analyse.completions import Completions, completions_summary, same_text
from stages.analyse.tables import History
from stages.contracts.analysis_card import ConditionCard, RunRef
from stages.contracts.observed import Observed, Resume, Rows
from stages.contracts.series import Cell, NonFinite, classify


def series(run: RunRef, condition: ConditionCard, history: History, completions: Completions, **around: Any) -> Observed:
    """Everything that was measured on a run. `around`: fields of Observed that lie outside the run's own tables."""
    return _Recorded(
        run=run.name,
        condition=run.condition,
        role=condition.role,
        target_steps=run.target_steps,
        stride=history.stride,
        metrics=_Cells(history.columns),
        completions=completions_summary(completions) if completions.rows else None,
        resumes=_resumes(history),
        repeated=history.columns.repeated,
        same_text=same_text(completions) if completions.rows else (),
        history=history,
        **around,
    )


@dataclass(frozen=True)
class _Recorded(Observed):
    """The same answers as those of Observed, from the arrays of a history."""

    history: History = field(kw_only=True)

    @cached_property
    def bad_steps(self) -> frozenset[int]:
        return self.history.bad_steps

    @cached_property
    def gradient(self) -> NonFinite:
        return self.history.gradient

    def nulls(self, metric: str) -> frozenset[int]:
        column = self.history.columns.get(metric)
        return frozenset() if column is None else frozenset(step for step in column.null.tolist() if self.valid(step))

    def rows(self, metric: str) -> Rows:
        return self.history.rows(metric)

    def values(self, metric: str) -> list[tuple[int, float]]:
        return self.rows(metric).pairs()

    def logs(self, metric: str) -> bool:
        return metric in self.history.columns

    def numbers(self, metric: str) -> bool:
        return metric in self.history.columns and not bool(np.isnan(self.history.columns[metric].values).all())

    def varies(self, metric: str) -> bool:
        return metric in self.history.columns and self.history.columns[metric].varies()

    def spread_of_nonfinite(self, metric: str) -> NonFinite:
        if metric not in self.history.columns.odd:
            return NonFinite("none", 0, 0, None, None, None)  # nobody counts the rows of what is always finite
        column = self.history.columns[metric]
        return classify(column.steps.tolist(), column.bad.tolist())


class _Cells(Mapping[str, Sequence[Cell]]):
    """Columns as plain cells, made when a detector first asks."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._made: dict[str, tuple[Cell, ...]] = {}

    def __getitem__(self, name: str) -> Sequence[Cell]:
        if name not in self._made:
            self._made[name] = self._columns[name].cells()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _resumes(history: History) -> tuple[Resume, ...]:
    found = []
    for boundary in history.boundaries:
        earlier = history.steps[history.steps < boundary]
        again = max((lap.last - lap.first + 1 for lap in history.overlaps if lap.first == boundary), default=0)
        found.append(Resume(boundary, int(earlier[-1]) if len(earlier) else 0, again))
    return tuple(found)
