"""`analysis/figures/<name>.json`: what a picture shows, beside `<name>.svg` and the numbers behind it in `<name>.csv`."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.artifact import Artifact
from stages.contracts.finding import Source


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
