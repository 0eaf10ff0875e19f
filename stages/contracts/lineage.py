"""`page/lineage.json`: the files behind a page."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.artifact import Artifact, Frozen

COMPILED, INPUT = "octavo compile", "input"


class MadeFile(Frozen):
    path: str
    """Relative to the project root."""
    sha256: str
    """As it was when the page was written."""
    made_by: str
    """`octavo compile`, `attempt <id>`, `stage <name>`, or `input` of what octavo did not make."""


class Lineage(Artifact):
    SCHEMA: ClassVar[str] = "octavo.lineage/1"

    experiment: str
    commit: str | None
    """Git commit of the attempts; null when there are several."""
    files: tuple[MadeFile, ...]
