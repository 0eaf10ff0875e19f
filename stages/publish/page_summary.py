"""`page/summary.json`: what the home page shows of an experiment."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.page_card import ChangeWords
from stages.publish.claims import ClaimView, Place
from stages.publish.experiment import ExperimentFiles
from stages.publish.header import answer

FOLDER = "static"
"""Of a page's folder: pages that MkDocs does not read."""


class ClaimLine(Frozen):
    id: str
    says: str
    verdict: str
    finding: str | None
    printed: str
    """The deciding number as the page prints it; empty when there is none."""
    place: Place | None = Field(None, exclude_if=lambda value: value is None)
    """Where it stands against its margin."""


class PageSummary(Artifact):
    SCHEMA: ClassVar[str] = "octavo.page_summary/1"

    experiment: str
    title: str
    question: str
    answer: str
    owner: str
    tags: tuple[str, ...]
    profile: str | None
    claims: tuple[ClaimLine, ...]
    runs: int
    included: int
    finished: int
    warnings: int
    data_until: str | None
    """When the newest attempt ended, UTC."""
    parent: str | None = None
    """Experiment that this one changes."""
    changes: tuple[ChangeWords, ...] = ()
    """The whole difference to its parent."""
    hypothesis: str = ""
    """What the changes were expected to do."""


def page_summary(experiment: ExperimentFiles, claims: tuple[ClaimView, ...], warnings: int) -> PageSummary:
    card = experiment.card
    lines = tuple(
        ClaimLine(
            **{name: getattr(claim, name) for name in ("id", "says", "verdict")},
            printed=claim.fact.striptags() if claim.fact else "",
            place=claim.at,
            finding=claim.decided.finding,
        )
        for claim in claims
    )
    return PageSummary(
        **{name: getattr(card, name) for name in ("title", "owner", "tags", "profile", "parent", "changes", "hypothesis")},
        experiment=experiment.folder.name,
        question=card.question.strip(),
        answer=answer(claims),
        claims=lines,
        runs=len(experiment.runs),
        included=experiment.included,
        finished=sum(run.state in ("finished", "unknown") for run in experiment.runs),
        warnings=warnings,
        data_until=experiment.data_until,
    )
