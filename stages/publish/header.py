"""The headline of an experiment, and `page/summary.json`, which the home page shows of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from stages.contracts.artifact import Artifact, Frozen, Time, later
from stages.contracts.page_card import ChangeWords
from stages.publish.care import Caution, Sources, is_doubtful
from stages.publish.claims import ClaimView, Place
from stages.publish.numbers import counted, listed
from stages.publish.text import TEXTS

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
    doubtful: bool = later(False)
    """A detector warns about its runs, or an expectation about them was missed."""

    @property
    def pill(self) -> str:
        """The verdict, or `care` of a claim that is supported by doubtful runs."""
        return "care" if self.doubtful and self.verdict == "supported" else self.verdict


class PageSummary(Artifact):
    SCHEMA: ClassVar[str] = "octavo.page_summary/1"

    experiment: str
    title: str
    question: str
    answer: str
    owner: str
    tags: tuple[str, ...]
    profile: str | None
    """Of a profile that is no evidence: its name."""
    claims: tuple[ClaimLine, ...]
    runs: int
    included: int
    finished: int
    warnings: int
    """Reasons to read the result with care."""
    doubts: tuple[str, ...] = later(())
    """Those that a few words can say."""
    data_until: Time | None
    """When the newest attempt ended, UTC."""
    parent: str | None = None
    """Experiment that this one changes."""
    changes: tuple[ChangeWords, ...] = ()
    """The whole difference to its parent."""
    hypothesis: str = ""
    """What the changes were expected to do."""


def headline(claims: Sequence[ClaimView], cautions: Sequence[Caution]) -> str:
    """`Of three declared claims, one is supported and two are void. Read with care: 2 of 12 runs do not count, and 3 warnings.`"""
    doubts = [caution.short for caution in cautions if caution.short]
    return verdict_counts(claims) + (f" Read with care: {listed(doubts)}." if doubts else "")


def verdict_counts(claims: Sequence[ClaimView]) -> str:
    """In the order supported, refuted, inconclusive, void."""
    if any(claim.verdict == "open" for claim in claims):
        return "Nothing is decided yet."
    if not claims:
        return "No claim was declared, so nothing is decided."
    counts = Counter(claim.verdict for claim in claims)
    if len(counts) == 1:
        all_of_them = {1: "The one declared claim is", 2: "Both declared claims are"}
        return f"{all_of_them.get(len(claims), f'All {counted(len(claims))} declared claims are')} {claims[0].verdict}."
    parts = [f"{counted(n)} {'is' if n == 1 else 'are'} {verdict}" for verdict in TEXTS["verdicts"] if (n := counts[verdict])]
    return f"Of {counted(len(claims))} declared claims, {listed(parts)}."


def page_summary(sources: Sources, cautions: Sequence[Caution]) -> PageSummary:
    experiment, claims = sources.experiment, sources.claims
    card = experiment.card
    lines = tuple(
        ClaimLine(
            id=claim.id,
            says=claim.says,
            verdict=claim.verdict,
            finding=claim.decided.finding,
            printed=claim.fact.striptags() if claim.fact else "",
            place=claim.at,
            doubtful=is_doubtful(claim, sources),
        )
        for claim in claims
    )
    return PageSummary(
        **{name: getattr(card, name) for name in ("title", "owner", "tags", "parent", "changes", "hypothesis")},
        profile=card.profile if card.is_small else None,
        experiment=experiment.folder.name,
        question=card.question.strip(),
        answer=headline(claims, cautions),
        claims=lines,
        runs=len(experiment.runs),
        included=experiment.included,
        finished=sum(run.state in ("finished", "unknown") for run in experiment.runs),
        warnings=sum(bool(caution.short) for caution in cautions),
        doubts=tuple(caution.short for caution in cautions if caution.short),
        data_until=experiment.data_until,
    )
