"""`page.card.json`: the words of a page. Editing them reruns only the page."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.analysis_card import ConditionCard, RunRef
from stages.contracts.artifact import Artifact, Frozen, Section, later
from stages.contracts.code import Judgement, Version
from stages.contracts.intention import Action, ChangeWords, Contingency
from stages.contracts.question import Question


class ClaimText(Frozen):
    id: str
    says: str


class PageCard(Section, Artifact):
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
    claims: tuple[ClaimText, ...]
    evaluation: tuple[str, ...]
    curves: tuple[str, ...]
    parent: str | None = None
    """Experiment that this one changes."""
    changes: tuple[ChangeWords, ...] = ()
    """The whole difference to the parent."""
    unavailable: tuple[str, ...] = ()
    """Of imported runs: metrics that the source does not have, as the author says."""
    hypothesis: str = ""
    """What the changes were expected to do."""
    questions: tuple[Question, ...] = ()
    """What the page is asked, in the spec's order."""
    actions: tuple[Action, ...] = ()
    contingency: tuple[Contingency, ...] = ()
    run_pages: bool = later(False)
    """Whether every run has a page of its own."""
    places: str = ""
    """Digest of where the spec writes each value (stages/contracts/origin.py), without lines: pages show it."""
    judged: tuple[Judgement, ...] = ()
    """Changes of octavo's code that a person judged to change no result of this experiment's stages, oldest first."""
    code: dict[str, Version]
