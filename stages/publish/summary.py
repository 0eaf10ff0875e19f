"""The first lines of a page: the answer that the verdicts give, badges, and plain sentences: verdicts, then warnings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup
from pydantic import Field

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.intention import ChangeWords
from stages.publish import expectations, numbers
from stages.publish.anomalies import SEVERITIES, Anomaly
from stages.publish.bars import Place
from stages.publish.claims import ORDER, WORDS, ClaimView
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.ledger import Completion
from stages.publish.numbers import counted, listed, plural
from stages.publish.text import shown, spoken


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
    """`page/summary.json`: what the home page shows of an experiment."""

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


@dataclass(frozen=True)
class Bullet:
    tone: str
    text: Markup


def answer(claims: tuple[ClaimView, ...]) -> str:
    """`Of three declared claims, one is supported and two are void.`, in the order supported, refuted, inconclusive, void."""
    if not claims:
        return "No claim was declared, so nothing is decided."
    counts = Counter(claim.verdict for claim in claims)
    if len(counts) == 1:
        word = WORDS[claims[0].verdict].lower()
        all_of_them = {1: "The one declared claim is", 2: "Both declared claims are"}
        return f"{all_of_them.get(len(claims), f'All {counted(len(claims))} declared claims are')} {word}."
    parts = [f"{counted(n)} {'is' if n == 1 else 'are'} {WORDS[verdict].lower()}" for verdict in ORDER if (n := counts[verdict])]
    return f"Of {counted(len(claims))} declared claims, {listed(parts)}."


def badges(experiment: ExperimentFiles) -> tuple[tuple[str, str], ...]:
    """(name, text) of small facts under the title."""
    included = sum(run.included for run in experiment.runs)
    seeds = sorted({run.ref.seed for run in experiment.runs})
    until = data_until(experiment)
    return (
        ("profile", experiment.card.profile or "full experiment"),
        ("conditions", str(len(experiment.card.conditions))),
        ("seeds", str(len(seeds))),
        ("runs included", f"{included} of {len(experiment.runs)}"),
        ("health profile", experiment.card.health_profile),
        ("logs read" if experiment.imported else "data until", until[:10] if until else "no attempt has ended"),
        ("owner", experiment.card.owner),
    )


def data_until(experiment: ExperimentFiles) -> str | None:
    return max((a.ended.at for run in experiment.runs for a in run.attempts if a.ended), default=None)


def bullets(
    experiment: ExperimentFiles,
    facts: Facts,
    claims: tuple[ClaimView, ...],
    seen: tuple[Anomaly, ...],
    rates: tuple[Completion, ...],
) -> tuple[Bullet, ...]:
    """Plain sentences: verdicts, expectations and stopped runs, warnings, movements on the shared evaluation, attempts."""
    ruled = [Bullet(tone, text) for tone, text in expectations.lines(experiment, facts)]
    lines = [*_verdicts(claims), *_preflight(experiment), *ruled, *_warnings(experiment, seen), *_movements(experiment, facts)]
    if rates:
        total = rates[-1]
        lines.append(Bullet("plain", Markup("{} {}").format(total.number, shown(total.told))))
    return tuple(lines)


def _preflight(experiment: ExperimentFiles) -> list[Bullet]:
    """What preflight held against conditions that are meant to learn; a null control without a signal is as declared."""
    meant = {condition.name for condition in experiment.card.conditions if condition.role != "null_control"}
    results = experiment.preflight.results if experiment.preflight else ()
    return [
        Bullet(
            "warn",
            shown(
                f"Preflight {'refused' if result.verdict == 'refuse' else 'warned about'} {result.condition}: "
                f"{'; '.join(reason.rstrip('.') for reason in result.reasons) or 'no reason was written'}."
            ),
        )
        for result in results
        if result.verdict != "pass" and result.condition in meant
    ]


_MOST_WARNINGS = 5
_MORE = Markup('{} <a href="#anomalies">{}</a>.')


def _warnings(experiment: ExperimentFiles, seen: tuple[Anomaly, ...]) -> list[Bullet]:
    """One line a condition that has warnings, the severe ones first; the rest is under Anomalies."""
    warned = [anomaly for anomaly in seen if anomaly.severity != "info"]
    names = [c.name for c in experiment.card.conditions if any(a.condition == c.name for a in warned)]
    names.sort(key=lambda name: min(SEVERITIES.index(a.severity) for a in warned if a.condition == name))
    lines = []
    for name in names[:_MOST_WARNINGS]:
        mine = [anomaly for anomaly in warned if anomaly.condition == name]
        tone = "severe" if any(anomaly.severity == "severe" for anomaly in mine) else "warn"
        phrases = dict.fromkeys(anomaly.phrase for anomaly in mine)
        said = Markup("<strong>{}</strong> {}.").format(shown(f"{name}:"), shown("; ".join(phrases)))
        lines.append(Bullet(tone, _MORE.format(said, "Evidence") if name == names[0] else said))
    if len(names) > _MOST_WARNINGS:
        rest = shown(f"{plural(len(names) - _MOST_WARNINGS, 'more condition')} with warnings:")
        lines.append(Bullet("warn", _MORE.format(rest, "Anomalies")))
    return lines


_VERDICT = Markup('<strong>{}:</strong> <a class="quiet" href="#{}">{}</a>{}')


def _verdicts(claims: tuple[ClaimView, ...]) -> list[Bullet]:
    lines = []
    for claim in claims:
        number = Markup(" {}").format(claim.fact) if claim.fact else Markup("")
        rest = Markup(" {}").format(spoken(claim.short)) if claim.short else Markup("")
        anchor = shown(f"claim-{claim.id}")
        lines.append(Bullet(claim.verdict, _VERDICT.format(shown(claim.word), anchor, spoken(claim.says), number + rest)))
    return lines


def _movements(experiment: ExperimentFiles, facts: Facts) -> list[Bullet]:
    lines = []
    for name in experiment.card.evaluation:
        metric = f"evaluation.{name}.pass_share"
        before = facts.find("untrained", metric, "final", "share", "initial")
        after = [(c.name, facts.find(c.name, metric, "final", "share")) for c in experiment.card.conditions]
        known = [(condition, finding) for condition, finding in after if finding and finding.value is not None]
        if before and known:
            digits = numbers.column_decimals((f.value, f.low, f.high) for _, f in known)
            parts = Markup(", ").join(Markup("{} {}").format(shown(c), facts.interval(f, decimals=digits)) for c, f in known)
            first = facts.value(before, decimals=digits)
            none = [condition for condition, finding in after if not finding or finding.value is None]
            rest = shown(f"; of {listed(none)} no run counts" if none else "")
            text = Markup("Shared evaluation, {}: untrained {}; after training {}{}.").format(shown(name), first, parts, rest)
            lines.append(Bullet("plain", text))
    return lines


def page_summary(experiment: ExperimentFiles, claims: tuple[ClaimView, ...], warnings: int) -> PageSummary:
    card = experiment.card
    printed = {claim.id: claim.fact.striptags() if claim.fact else "" for claim in claims}
    return PageSummary(
        experiment=experiment.folder.name,
        title=card.title,
        question=card.question.strip(),
        answer=answer(claims),
        owner=card.owner,
        tags=card.tags,
        profile=card.profile,
        claims=tuple(
            ClaimLine(
                id=claim.id,
                says=claim.says,
                verdict=claim.verdict,
                printed=printed[claim.id],
                place=claim.at,
                finding=experiment.verdicts[claim.id].finding if claim.id in experiment.verdicts else None,
            )
            for claim in claims
        ),
        runs=len(experiment.runs),
        included=sum(run.included for run in experiment.runs),
        finished=sum(run.state in ("finished", "unknown") for run in experiment.runs),
        warnings=warnings,
        data_until=data_until(experiment),
        parent=card.parent,
        changes=card.changes,
        hypothesis=card.hypothesis,
    )


def headline(experiment: ExperimentFiles) -> str:
    """`4 conditions, 3 seeds each, 11 of 12 runs included`."""
    seeds = {c.name: len(experiment.of_condition(c.name)) for c in experiment.card.conditions}
    each = f"{plural(next(iter(seeds.values())), 'seed')} each" if len(set(seeds.values())) == 1 else plural(len(experiment.runs), "run")
    return f"{plural(len(seeds), 'condition')}, {each}, {sum(r.included for r in experiment.runs)} of {len(experiment.runs)} runs included"
