"""`page.card.json`: the words of a page. Editing them reruns only the page."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.analysis_card import ConditionCard, RunRef
from stages.contracts.artifact import Artifact, Frozen


class ClaimWords(Frozen):
    id: str
    says: str


class PageCard(Artifact):
    SCHEMA: ClassVar[str] = "octavo.page_card/1"

    experiment: str
    title: str
    question: str
    owner: str
    tags: tuple[str, ...]
    spec: str
    """Path of the spec file."""
    prose: str | None
    """Path of the author's interpretation, a Markdown file with `{{ finding id }}` references; null when there is none."""
    profile: str | None
    """Name of the spec profile; null for the experiment proper. A profile's page is not evidence and says so."""
    health_profile: str
    conditions: tuple[ConditionCard, ...]
    runs: tuple[RunRef, ...]
    claims: tuple[ClaimWords, ...]
    evaluation: tuple[str, ...]
    curves: tuple[str, ...]
    code_hash: str
