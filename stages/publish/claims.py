"""Claims as a reader meets them: the verdict as a word and a mark, the interval drawn against the margin, seeds in and out."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.analysis_card import ClaimCard
from stages.contracts.finding import Finding, SeedValue, Verdict
from stages.contracts.metric_words import words
from stages.contracts.origin import Origin
from stages.publish import numbers
from stages.publish.bars import Place, bar, place
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts, interval_text

WORDS = {"supported": "Supported", "refuted": "Refuted", "inconclusive": "Inconclusive", "void": "Void"}
MARKS = {"supported": "✓", "refuted": "✗", "inconclusive": "?", "void": "∅"}
ORDER = tuple(WORDS)


@dataclass(frozen=True)
class ClaimView:
    id: str
    says: str
    verdict: str
    why: str
    short: str
    """What the summary adds to a verdict that decides nothing."""
    rule: str
    fact: Markup | None
    level: str
    bar: Markup | None
    at: Place | None
    """Where the number stands against its margin; None without a number."""
    seeds: tuple[SeedValue, ...]
    values: dict[str, str]
    with_all: str
    without: tuple[tuple[str, str], ...]
    """The number without each gate that alone keeps a run of it out, where there are several gates or other reasons too."""
    place: Origin | None
    written: str
    """When the rule was committed, against the first data, and what of it was edited after them."""
    late: bool
    """Something of the rule is younger than the first data."""

    @property
    def word(self) -> str:
        return WORDS[self.verdict]

    @property
    def mark(self) -> str:
        return MARKS[self.verdict]

    @property
    def left_out(self) -> tuple[SeedValue, ...]:
        return tuple(seed for seed in self.seeds if not seed.included)


def claim_views(experiment: ExperimentFiles, facts: Facts) -> tuple[ClaimView, ...]:
    """One view a claim of the page's card, in the spec's order."""
    rules = {claim.id: claim for claim in experiment.conclude.claims} if experiment.conclude else {}
    views = []
    for said in experiment.card.claims:
        verdict = experiment.verdicts.get(said.id)
        if verdict is None:
            verdict = Verdict(
                claim=said.id,
                verdict="void",
                why="The findings hold no verdict of this claim.",
                finding=None,
                direction="above",
                margin=0.0,
            )
        finding = experiment.findings.get(verdict.finding) if verdict.finding else None
        views.append(_view(experiment, facts, said.id, said.says, verdict, finding, rules.get(said.id)))
    return tuple(views)


def _view(
    experiment: ExperimentFiles,
    facts: Facts,
    claim: str,
    says: str,
    verdict: Verdict,
    finding: Finding | None,
    rule: ClaimCard | None,
) -> ClaimView:
    seeds = finding.seeds if finding else _sides(experiment, rule)
    unit = finding.unit if finding else "share"
    digits = numbers.column_decimals((seed.value, None, None) for seed in seeds)
    rule_date = experiment.changed.rules[claim]
    at = place(finding, verdict) if finding else None
    beside = None
    if finding and finding.value is not None and finding.low is not None and finding.high is not None:
        beside = numbers.decimals_beside(verdict.margin, finding.value, finding.low, finding.high)
    return ClaimView(
        id=claim,
        says=says,
        verdict=verdict.verdict,
        why=_why(verdict, finding, listed=any(not seed.included and seed.why for seed in seeds)),
        short=_short(verdict, finding),
        rule=rule_words(rule) if rule else "",
        fact=facts.interval(finding, decimals=beside) if finding else None,
        level=numbers.percent(finding.level) if finding and finding.level else "",
        bar=bar(at, verdict.verdict, interval_text(finding, decimals=beside)) if finding and at else None,
        at=at,
        seeds=seeds,
        values={seed.run: numbers.number(seed.value, unit, decimals=digits) for seed in seeds},
        with_all=_like(finding, finding.with_all) if finding else "",
        without=_without(finding) if finding else (),
        place=experiment.origins.claims.get(claim),
        written=rule_date.written,
        late=bool(rule_date.late),
    )


def _sides(experiment: ExperimentFiles, rule: ClaimCard | None) -> tuple[SeedValue, ...]:
    """The seeds that a claim without a number would have compared."""
    if rule is None:
        return ()
    sides = [rule.contrast.condition, rule.contrast.against] if rule.contrast else [rule.condition or ""]
    found = (experiment.findings.get(f"{side}/{rule.metric}/{rule.statistic}") for side in sides)
    return tuple(seed for finding in found if finding for seed in finding.seeds)


def rule_words(rule: ClaimCard) -> str:
    """The rule as it was written before the data, in words."""
    what = f"{words(rule.metric)} (`{rule.metric}`), {rule.statistic}"
    of = f"{rule.contrast.condition} minus {rule.contrast.against}" if rule.contrast else f"{rule.condition}"
    health = ", healthy runs only" if rule.included_only else ", all runs"
    margin = numbers.setting(rule.margin).replace("-", numbers.MINUS)
    return f"{what}, {of}, {rule.direction} {margin}, {numbers.plural(rule.seeds, 'seed')} a condition{health}"


def _like(finding: Finding, value: float | None) -> str:
    """Another value of a finding with its digits; empty without one."""
    if value is None:
        return ""
    signed = finding.statistic in numbers.SIGNED
    return numbers.number(value, decimals=numbers.decimals_for(finding.value, finding.low, finding.high), signed=signed)


def _without(finding: Finding) -> tuple[tuple[str, str], ...]:
    if len(finding.without_gate) == 1 and finding.with_all in finding.without_gate.values():
        return ()
    return tuple((gate, _like(finding, value)) for gate, value in finding.without_gate.items())


def _short(verdict: Verdict, finding: Finding | None) -> str:
    if verdict.verdict == "void":
        return f"Not decided: {_cause(verdict)}"
    if verdict.verdict == "inconclusive" and verdict.seeds_needed is not None:
        return _needed(verdict, finding, "about ")
    return ""


def _needed(verdict: Verdict, finding: Finding | None, about: str = "") -> str:
    """How many seeds would decide, and which way: only if the value that was seen is the true one, which nobody knows."""
    seeds = f"{about}{numbers.plural(verdict.seeds_needed or 0, 'seed')} a condition would decide"
    if finding is None or finding.value is None:
        return f"At the observed spread, {seeds}."
    holds = finding.value > verdict.margin if verdict.direction == "above" else finding.value < verdict.margin
    return f"Were the value seen the true one, {seeds} {'for' if holds else 'against'} the claim."


def _cause(verdict: Verdict) -> str:
    """Why a claim is void, without the runs' reasons in brackets."""
    return verdict.why.removeprefix("Void: ").split(" (", 1)[0].rstrip(".") + "."


_LIES = {
    "supported": "The whole interval lies {side} {margin}.",
    "refuted": "No part of the interval lies {side} {margin}.",
    "inconclusive": "The interval contains {margin}.",
}


def _why(verdict: Verdict, finding: Finding | None, *, listed: bool) -> str:
    """Where the interval lies, in one sentence; of a void claim the analysis's words, briefly where the runs' reasons are `listed`."""
    if verdict.verdict == "void" or finding is None:
        said = verdict.why.removeprefix("Void: ")
        return f"Not decided: {_cause(verdict)}" if listed else f"{said[:1].upper()}{said[1:]}"
    margin = f"the margin {numbers.setting(verdict.margin).replace('-', numbers.MINUS)}"
    if finding.low is None:
        return f"There is no interval ({finding.method}), so the value alone does not say on which side of {margin} the truth lies."
    parts = [_LIES[verdict.verdict].format(side=verdict.direction, margin=margin)]
    if finding.equal_seeds:
        parts.append(f"The {finding.method}; it knows of no other seed.")
    if verdict.detectable is not None:
        parts.append(f"These seeds could have shown a distance of {numbers.number(verdict.detectable)} from it (80% power).")
    if verdict.seeds_needed is not None:
        parts.append(_needed(verdict, finding))
    return " ".join(parts)
