"""The top of a page: the answer that the verdicts give, and why runs failed or do not count; and `page/summary.json`, which the home page
shows of an experiment. `banners.html.j2` and `summary.html.j2` hold the sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

from markupsafe import Markup
from pydantic import Field

from stages.contracts.artifact import Artifact, Frozen, Time
from stages.contracts.page_card import ChangeWords
from stages.publish.claims import ClaimView, Place
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.methods import judged_page, judged_words
from stages.publish.numbers import counted, listed
from stages.publish.text import TEXTS, render

FOLDER = "static"
"""Of a page's folder: pages that MkDocs does not read."""
_LETTERS = 200
"""Of an attempt's error; the whole is in the table of attempts."""


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
    data_until: Time | None
    """When the newest attempt ended, UTC."""
    parent: str | None = None
    """Experiment that this one changes."""
    changes: tuple[ChangeWords, ...] = ()
    """The whole difference to its parent."""
    hypothesis: str = ""
    """What the changes were expected to do."""


def answer(claims: Sequence[ClaimView]) -> str:
    """`Of three declared claims, one is supported and two are void.`, in the order supported, refuted, inconclusive, void."""
    if any(claim.verdict == "open" for claim in claims):
        return "Nothing is decided yet: runs go on."
    if not claims:
        return "No claim was declared, so nothing is decided."
    counts = Counter(claim.verdict for claim in claims)
    if len(counts) == 1:
        all_of_them = {1: "The one declared claim is", 2: "Both declared claims are"}
        return f"{all_of_them.get(len(claims), f'All {counted(len(claims))} declared claims are')} {claims[0].verdict}."
    parts = [f"{counted(n)} {'is' if n == 1 else 'are'} {verdict}" for verdict in TEXTS["verdicts"] if (n := counts[verdict])]
    return f"Of {counted(len(claims))} declared claims, {listed(parts)}."


def banners(experiment: ExperimentFiles, claims: Sequence[ClaimView] = ()) -> Markup:
    """What a reader must know before the first number, a `<div>` each."""
    judged = judged_words(judged_page(experiment))
    words = {"judged": judged, "failures": failures, "exclusions": exclusions}
    return Markup(render("banners.html.j2", experiment=experiment, card=experiment.card, claims=claims, **words))


def exclusions(runs: Iterable[RunFiles]) -> str:
    """All reasons of all runs: each failed gate's rule once, with the runs that it leaves out; most runs first."""
    rules: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for run in runs:
        failed = {exclusion.says: exclusion.rule for exclusion in (run.health.exclusions if run.health else ()) if exclusion.gate}
        for reason in run.left_out:
            reasons = rules if reason in failed else others
            reasons.setdefault(failed.get(reason, reason), []).append(run.ref.name)
    parts = [f"{rule} ({listed(names)})" for rule, names in sorted(rules.items(), key=lambda rule: -len(rule[1]))]
    not_met = [f"Not met: {'; '.join(parts)}."] if parts else []
    return " ".join([*not_met, *(f"{listed(names)}: {reason}." for reason, names in others.items())])


def failures(experiment: ExperimentFiles) -> str:
    """Each kind of failure: which runs, the first one's error, and what helps."""
    kinds: dict[str, list[RunFiles]] = {}
    for run in experiment.runs:
        if run.outcome and run.state == "failed":  # imported runs have no class, only an error
            kinds.setdefault(run.outcome.failure or ("broke off" if run.outcome.error else "unknown"), []).append(run)
    sentences = []
    for kind, runs in kinds.items():
        which = "all runs" if len(runs) == len(experiment.runs) else listed([run.ref.name for run in runs])
        error = " ".join(((runs[0].outcome and runs[0].outcome.error) or "").split())
        cut = error if len(error) <= _LETTERS else f"{error[:_LETTERS].rstrip()} \u2026"
        end = "" if cut.endswith((".", "\u2026")) else "."
        sentences.append(f"{kind.replace('_', ' ').capitalize()} ({which}){f': {cut}' if cut else ''}{end}")
        sentences += [f"What helps: {TEXTS['help'][kind]}."] if kind in TEXTS["help"] else []
    return " ".join(sentences)


def page_summary(experiment: ExperimentFiles, claims: tuple[ClaimView, ...], warnings: int) -> PageSummary:
    card = experiment.card
    lines = tuple(
        ClaimLine(
            id=claim.id,
            says=claim.says,
            verdict=claim.verdict,
            finding=claim.decided.finding,
            printed=claim.fact.striptags() if claim.fact else "",
            place=claim.at,
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
