"""What a figure module returns: a picture, the numbers behind it, and the words around it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from stages.analyse.tables import History
from stages.contracts.analysis_card import DrawCard
from stages.contracts.figure import Figure
from stages.contracts.finding import Finding, Findings, Source
from stages.contracts.health import Health

Row = Sequence[str | int | float | bool | None]


@dataclass(frozen=True)
class Material:
    """All that is drawn from."""

    card: DrawCard
    findings: Findings
    histories: Mapping[str, History]
    """By run."""
    healths: Mapping[str, Health | None]
    sources: Mapping[str, Source]
    """Of the files read, by path: findings.json under `findings`, histories under the run's name."""

    @cached_property
    def _by_id(self) -> dict[str, Finding]:
        return {finding.id: finding for finding in self.findings.findings}

    def find(self, id_: str) -> Finding | None:
        """A finding by its id."""
        return self._by_id.get(id_)

    def included(self, run: str) -> bool:
        health = self.healths.get(run)
        return health is not None and health.included

    def colour(self, condition: str) -> int:
        """Number of a condition's colour, counted from 0: the same in every figure."""
        return [known.name for known in self.card.conditions].index(condition)


@dataclass(frozen=True)
class Drawing:
    """One figure."""

    figure: Figure
    svg: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def csv(self) -> str:
        """The numbers, with a header; empty cells where there is none."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(
            ["" if cell is None else str(cell).lower() if isinstance(cell, bool) else cell for cell in row] for row in self.rows
        )
        return stream.getvalue()
