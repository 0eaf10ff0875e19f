"""`build/comparisons/<experiment>/<other>/comparison.json`: what moved from another experiment to this one."""

from __future__ import annotations

from typing import ClassVar, Literal

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.finding import Finding
from stages.contracts.page_card import ChangeWords

Moved = Literal["gained", "lost", "higher", "lower", "undecided", "same"]
"""gained, lost: the whole interval of the difference lies on one side of 0, and it is known which side is better. higher, lower: it is not
known. undecided: the interval holds 0, or there is none. same: all numbers or all settings are equal."""


class Row(Frozen):
    """A metric of a condition that both experiments have. Ids of `before` and `after` begin with their experiments' names."""

    condition: str
    metric: str
    before: Finding
    after: Finding
    difference: Finding
    better: Literal["higher", "lower", ""]
    """Which side is better; empty where neither claims nor the metric say so."""
    moved: Moved


class Comparison(Artifact):
    SCHEMA: ClassVar[str] = "octavo.comparison/1"

    experiment: str
    other: str
    """The one that came before: every difference is `experiment` minus `other`."""
    rows: tuple[Row, ...]
    changes: tuple[ChangeWords, ...]
    """All settings that differ."""
    left_out: tuple[str, ...]
    """What is not compared, each with its reason, in plain words."""
