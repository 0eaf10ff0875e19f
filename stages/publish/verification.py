"""What `octavo verify` found: every place where files, locks, cards, pages and the site do not agree. Printed as JSON by `--json`."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.artifact import Artifact, Frozen


class Difference(Frozen):
    """One thing that is not what it should be."""

    code: str
    """E402 a generated file, E410 a stage that was compiled anew since it ran, E487 a file and its lock, S488 a published value and the
    files, S489 the built site, S495 files that contradict each other,
    S496 an imported run that its source does not give; or the code of the stage that could not compute."""
    path: str
    """File, relative to the project root."""
    line: int | None = None
    column: int | None = None
    """1-based; null when the file has no lines."""
    cell: str = ""
    """The part of the file: a finding and its field, a row and column of a table, a stage of a lock."""
    what: str
    expected: str = ""
    """What it should be, as text; empty when the sentence says it all."""
    found: str = ""
    fix: str


class Verified(Frozen):
    """One experiment."""

    experiment: str
    checked: dict[str, int]
    """What was looked at: kind -> how many."""
    differences: tuple[Difference, ...]
    """Causes first: cards, locks, contradictions, then what was recomputed, then the site."""
    notes: tuple[str, ...] = ()
    """What a reader should know and that is no difference."""


class Verification(Artifact):
    SCHEMA: ClassVar[str] = "octavo.verification/1"

    experiments: tuple[Verified, ...]

    @property
    def differences(self) -> int:
        return sum(len(experiment.differences) for experiment in self.experiments)
