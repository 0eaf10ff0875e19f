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
