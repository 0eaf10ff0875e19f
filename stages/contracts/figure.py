"""`analysis/figures/<name>.json`: what a picture shows, beside `<name>.svg` and the numbers behind it in `<name>.csv`."""

from __future__ import annotations

from typing import ClassVar, Literal

from stages.contracts.artifact import Artifact, Frozen, later
from stages.contracts.finding import Source


class Mark(Frozen):
    """Something that is marked along the steps of a curve."""

    run: str
    kind: Literal["not_finite", "attempt", "collapse", "stopped"]
    first: int
    """Step; of a range the first one."""
    last: int
    says: str
    """Plain text, such as `shaped-s1: gradient not finite, steps 3-5`."""


class Limit(Frozen):
    """What a condition's metric was expected to keep to, or the limit of a rule that stops its runs; a side without a number is open."""

    condition: str
    kind: Literal["expected", "stops"]
    first: int
    """Step; of an expectation the window that is scored, of a rule all steps from which on it looks."""
    last: int
    above: float | None = None
    below: float | None = None
    says: str
    """Plain text, such as `shaped: expected above 0.7, steps 25-30`."""

    @property
    def bounds(self) -> tuple[float, ...]:
        return tuple(bound for bound in (self.above, self.below) if bound is not None)


class Figure(Artifact):
    SCHEMA: ClassVar[str] = "octavo.figure/1"

    name: str
    title: str
    caption: str
    """Plain text: what is drawn, units, what the marks mean."""
    alternative: str
    """Text for people who cannot see the picture: what it shows, with its main numbers."""
    findings: tuple[str, ...] = ()
    """Ids of findings whose values are drawn."""
    sources: tuple[Source, ...] = ()
    marks: tuple[Mark, ...] = later(())
    """Of curves: what is marked, for the form that a reader can zoom."""
    limits: tuple[Limit, ...] = later(())
    """Of curves: expectations and stop rules of the metric."""
    panels: tuple[tuple[str, ...], ...] = later(())
    """Of curves: the conditions of each panel. Conditions with different rewards never share one; empty: all are in one."""
