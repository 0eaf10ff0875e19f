"""The top of a page: the answer that the verdicts give, badges, what a reader must know before the first number, and the summary; and
`page/summary.json`, which the home page shows of an experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from markupsafe import Markup
from pydantic import Field

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.page_card import ChangeWords
from stages.publish import imported, numbers, rules
from stages.publish.anomalies import SEVERITIES, Anomaly
from stages.publish.claims import ORDER, WORDS, ClaimView, Place
from stages.publish.complete import HELP
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.methods import judged_page, judged_words
from stages.publish.numbers import counted, listed, plural
from stages.publish.text import escape, escape_with_code

FOLDER = "static"
"""Of a page's folder: pages that MkDocs does not read."""
_LETTERS = 200
"""Of an attempt's error; the whole is in the table of attempts."""
_MOST_WARNINGS = 5
_MORE = Markup('{} <a href="#anomalies">{}</a>.')
_VERDICT = Markup('<strong>{}:</strong> <a class="quiet" href="#claim-{}">{}</a>{}{}')


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


class Banner(NamedTuple):
    tone: str
    title: str
    text: str


def answer(claims: Sequence[ClaimView]) -> str:
    """`Of three declared claims, one is supported and two are void.`, in the order supported, refuted, inconclusive, void."""
    if not claims:
        return "No claim was declared, so nothing is decided."
    counts = Counter(claim.verdict for claim in claims)
    if len(counts) == 1:
        all_of_them = {1: "The one declared claim is", 2: "Both declared claims are"}
        return f"{all_of_them.get(len(claims), f'All {counted(len(claims))} declared claims are')} {WORDS[claims[0].verdict].lower()}."
    parts = [f"{counted(n)} {'is' if n == 1 else 'are'} {WORDS[verdict].lower()}" for verdict in ORDER if (n := counts[verdict])]
    return f"Of {counted(len(claims))} declared claims, {listed(parts)}."


def badges(experiment: ExperimentFiles) -> dict[str, str]:
    """Small facts under the title."""
    until = experiment.data_until
    return {
        "profile": experiment.card.profile or "full experiment",
        "conditions": str(len(experiment.card.conditions)),
        "seeds": str(len({run.ref.seed for run in experiment.runs})),
        "runs included": f"{experiment.included} of {len(experiment.runs)}",
        "health profile": experiment.card.health_profile,
        "logs read" if experiment.imported else "data until": until[:10] if until else "no attempt has ended",
        "owner": experiment.card.owner,
    }


def banners(experiment: ExperimentFiles, claims: Sequence[ClaimView] = ()) -> Iterator[Banner]:
    """The worst first, after what kind of page it is."""
    count = len(experiment.runs)
    if experiment.card.profile:
        text = "Built from a shortened profile of the experiment. It shows that every part works; its numbers decide nothing."
        yield Banner("smoke", f"Profile {experiment.card.profile}: machinery, not evidence", text)
    yield from (Banner(*words) for words in imported.banners(experiment))
    missing = [run.ref.name for run in experiment.runs if run.state == "missing"]
    if missing:
        again = f"No attempt has ended; dvc repro {experiment.folder.pipeline} runs them."
        yield Banner("hole", f"Missing runs: {len(missing)} of {count}", f"{listed(missing)}. {again}")
    failed = [run for run in experiment.runs if run.state == "failed"]
    if failed:
        yield Banner("hole", f"Failed runs: {len(failed)} of {count}", " ".join(_failures(experiment, failed)))
    gated = [run for run in experiment.runs if run.state in ("finished", "unknown") and not run.included]
    if gated:
        which = "Finished but left out" if all(run.state == "finished" for run in gated) else "Left out"  # an unknown end is no finish
        yield Banner("excluded", f"{which}: {len(gated)} of {count}", _exclusions(gated))
    late: dict[str, list[str]] = {}
    for claim in claims:
        if claim.dated.late:
            late.setdefault(claim.dated.written, []).append(claim.id)
    if late:
        text = "; ".join(f"{listed(names)}: {written}" for written, names in late.items())
        yield Banner("hole", f"Rules changed after the data: {plural(sum(map(len, late.values())), 'claim')}", f"{text}.")
    yield from _since_the_data(experiment)
    if lines := judged_page(experiment):
        text = f"{judged_words(lines)}. The judgements are under Methods."
        yield Banner("excluded", "Results of older code", text)


def _exclusions(runs: Iterable[RunFiles]) -> str:
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


def _since_the_data(experiment: ExperimentFiles) -> Iterator[Banner]:
    """What was declared or taken away when there were data: it was chosen with the data at hand, or is not shown."""
    changed = experiment.changed
    if changed.withdrawn:
        text = f"No longer declared: {listed(list(changed.withdrawn))}."
        yield Banner("hole", f"Withdrawn after the data: {len(changed.withdrawn)}", text)
    if changed.dropped:
        text = f"{listed(list(changed.dropped))}: no longer declared, so no number here rests on them."
        yield Banner("hole", f"Runs taken out after the data: {len(changed.dropped)}", text)
    if changed.added:
        text = f"{listed(list(changed.added))}: declared when others had data. Intervals are not adjusted for having looked before."
        yield Banner("excluded", f"Runs added after the first data: {len(changed.added)}", text)
    late = [name for name, rule in changed.expectations.items() if rule.late]
    if late:
        yield Banner("hole", f"Expectations changed after the data: {len(late)}", f"{listed(late)}: what is met here was no prediction.")


def _failures(experiment: ExperimentFiles, failed: list[RunFiles]) -> Iterator[str]:
    """Each kind of failure: which runs, the first one's error, and what helps."""
    kinds: dict[str, list[RunFiles]] = {}
    for run in failed:
        error, failure = (run.outcome.error, run.outcome.failure) if run.outcome else (None, None)
        kinds.setdefault(failure or ("broke off" if error else "unknown"), []).append(run)  # imported runs have no class, only an error
    for kind, runs in kinds.items():
        which = "all runs" if len(runs) == len(experiment.runs) else listed([run.ref.name for run in runs])
        error = " ".join((runs[0].outcome.error or "").split()) if runs[0].outcome else ""
        cut = error if len(error) <= _LETTERS else f"{error[:_LETTERS].rstrip()} \u2026"
        end = "" if cut.endswith((".", "\u2026")) else "."
        yield f"{kind.replace('_', ' ').capitalize()} ({which}){f': {cut}' if cut else ''}{end}"
        if kind in HELP:
            yield f"What helps: {HELP[kind]}."


def summary(
    experiment: ExperimentFiles,
    facts: Facts,
    claims: Sequence[ClaimView],
    anomalies: Sequence[Anomaly],
    rates: Sequence[tuple[str, Markup, str]],
) -> Iterator[tuple[str, Markup]]:
    """(tone, sentence): verdicts, preflight, expectations and stopped runs, warnings, movements on the shared evaluation, attempts."""
    for claim in claims:
        number = Markup(" {}").format(claim.fact) if claim.fact else ""
        short = Markup(" {}").format(escape_with_code(claim.short)) if claim.short else ""
        yield claim.verdict, _VERDICT.format(escape(claim.word), escape(claim.id), escape_with_code(claim.says), number, short)
    yield from _preflight(experiment)
    yield from rules.lines(experiment, facts)
    yield from _warnings(experiment, anomalies)
    yield from _movements(experiment, facts)
    if rates:
        _, number, bounds = rates[-1]
        finished = f"attempts finished; Wilson 95% interval of the share {bounds}."
        if experiment.imported:
            finished = "imported runs finished, as their logs say; tries that were not imported are unknown."
        yield "plain", Markup("{} {}").format(number, escape(finished))


def _preflight(experiment: ExperimentFiles) -> Iterator[tuple[str, Markup]]:
    """Preflight's warnings about conditions that are meant to learn; a null control without a signal is as declared."""
    meant = {condition.name for condition in experiment.card.conditions if condition.role != "null_control"}
    for result in experiment.preflight.results if experiment.preflight else ():
        if result.verdict != "pass" and result.condition in meant:
            verb = "refused" if result.verdict == "refuse" else "warned about"
            reasons = "; ".join(reason.rstrip(".") for reason in result.reasons) or "no reason was written"
            yield "warn", escape(f"Preflight {verb} {result.condition}: {reasons}.")


def _warnings(experiment: ExperimentFiles, anomalies: Sequence[Anomaly]) -> Iterator[tuple[str, Markup]]:
    """One line a condition that has warnings, the severe ones first; the rest is under Anomalies."""
    warned: dict[str, list[Anomaly]] = {condition.name: [] for condition in experiment.card.conditions}
    for anomaly in anomalies:
        if anomaly.severity != "info":
            warned[anomaly.condition].append(anomaly)
    order = {name: min(SEVERITIES.index(anomaly.severity) for anomaly in some) for name, some in warned.items() if some}
    names = sorted(order, key=order.__getitem__)
    for name in names[:_MOST_WARNINGS]:
        phrases = dict.fromkeys(anomaly.phrase for anomaly in warned[name])
        text = Markup("<strong>{}</strong> {}.").format(escape(f"{name}:"), escape("; ".join(phrases)))
        yield "warn" if order[name] else "severe", _MORE.format(text, "Evidence") if name == names[0] else text
    if len(names) > _MOST_WARNINGS:
        rest = escape(f"{plural(len(names) - _MOST_WARNINGS, 'more condition')} with warnings:")
        yield "warn", _MORE.format(rest, "Anomalies")


def _movements(experiment: ExperimentFiles, facts: Facts) -> Iterator[tuple[str, Markup]]:
    for name in experiment.card.evaluation:
        metric = f"evaluation.{name}.pass_share"
        before = facts.find("untrained", metric, "final", "share", "initial")
        after = {c.name: facts.find(c.name, metric, "final", "share") for c in experiment.card.conditions}
        measured = {condition: finding for condition, finding in after.items() if finding and finding.value is not None}
        if before and measured:
            digits = numbers.column_decimals((f.value, f.low, f.high) for f in measured.values())
            parts = Markup(", ").join(Markup("{} {}").format(escape(c), facts.interval(f, digits)) for c, f in measured.items())
            none = [condition for condition in after if condition not in measured]
            rest = escape(f"; of {listed(none)} no run counts" if none else "")
            text = Markup("Shared evaluation, {}: untrained {}; after training {}{}.")
            yield "plain", text.format(escape(name), facts.value(before, digits), parts, rest)


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
