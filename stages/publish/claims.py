"""Claims: the verdict, its number against the margin, seeds in and out, and when the rule was written."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from stages.contracts.artifact import Frozen
from stages.contracts.claim import ClaimRule, VerdictWords
from stages.contracts.finding import Finding, SeedValue, Verdict
from stages.contracts.history import metric_title
from stages.contracts.lineage import Origin, Written
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts, interval_text
from stages.publish.text import render


class Place(Frozen):
    """Where a number stands against the margin of its claim."""

    value: float
    low: float | None
    high: float | None
    margin: float
    direction: str
    """`above` or `below`: the side that the claim says."""


def bar(at: Place, verdict: str, printed: str, *, small: bool = False) -> Markup:
    """The interval against the margin, the claimed side shaded. `printed`: the number as the page prints it; a small bar has no words."""
    marks = [x for x in (0.0, at.margin, at.value, at.low, at.high) if x is not None]
    span = (max(marks) - min(marks)) or 1.0
    least, most = min(marks) - 0.12 * span, max(marks) + 0.12 * span
    width, edge = 320, 12

    def x(value: float) -> float:
        return round(edge + (value - least) / (most - least) * (width - 2 * edge), 1)

    svg = render("bar.html.j2", at=at, verdict=verdict, printed=printed, small=small, x=x, width=width)
    return Markup("".join(svg.splitlines()))


class ClaimView(NamedTuple):
    """A claim with what decides it, for the template, the passports and the summary."""

    id: str
    says: str
    decided: Verdict
    finding: Finding | None
    fact: Markup | None
    """The deciding number as a link."""
    digits: int | None
    """Of the deciding number."""
    rule: ClaimRule | None
    seeds: tuple[SeedValue, ...]
    """The seeds of the number, or those that a claim without one would have compared."""
    place: Origin | None
    dated: Written
    answers: VerdictWords = VerdictWords()
    """The author's own sentences."""

    @property
    def verdict(self) -> str:
        return self.decided.verdict

    @property
    def at(self) -> Place | None:
        """Where the number stands against its margin; None when there is no value."""
        number, rule = self.finding, self.decided
        if number is None or number.value is None:
            return None
        return Place(value=number.value, low=number.low, high=number.high, margin=rule.margin, direction=rule.direction)

    @property
    def bar(self) -> Markup | None:
        if self.at is None or self.finding is None or self.verdict == "open":
            return None
        return bar(self.at, self.verdict, interval_text(self.finding, decimals=self.digits))

    @property
    def why(self) -> str:
        return explain_verdict(self.decided, self.finding, listed=any(not seed.included and seed.why for seed in self.seeds))

    @property
    def rule_says(self) -> str:
        return rule_words(self.rule) if self.rule else ""

    @property
    def short(self) -> str:
        """Why a claim is not decided, or what would decide it."""
        if self.verdict == "void":
            cause = _cause(self.decided)
            return cause[:1].upper() + cause[1:]
        if self.verdict == "inconclusive" and self.decided.seeds_needed is not None:
            return _needed(self.decided, self.finding, "about ")
        return ""


def claim_views(experiment: ExperimentFiles, facts: Facts) -> tuple[ClaimView, ...]:
    """One view a claim of the page's card, in the spec's order."""
    rules = {claim.id: claim for claim in experiment.conclude.claims} if experiment.conclude else {}
    views = []
    for claim in experiment.card.claims:
        verdict, rule = experiment.verdicts.get(claim.id), rules.get(claim.id)
        is_open = verdict is not None and verdict.verdict == "open"
        if verdict is None:
            why = "The findings hold no verdict of this claim."
            verdict = Verdict(claim=claim.id, verdict="void", why=why, finding=None, direction="above", margin=0.0)
        number = experiment.findings.get(verdict.finding) if verdict.finding else None
        digits = _digits(verdict, number, facts.digits(number)) if number else None
        fact = None if number is None else facts.value(number) if is_open else facts.interval(number, digits)
        seeds = number.seeds if number else _sides(experiment, rule)
        place, dated = experiment.origins.claims.get(claim.id), experiment.changed.rules[claim.id]
        views.append(ClaimView(claim.id, claim.says, verdict, number, fact, digits, rule, seeds, place, dated, claim.answers))
    return tuple(views)


def _digits(verdict: Verdict, finding: Finding, digits: int | None) -> int | None:
    """Those of the metric, or as many more as it takes for every printed number to lie on its own side of the margin."""
    if finding.value is None or finding.low is None or finding.high is None:
        return None
    return numbers.decimals_beside(verdict.margin, finding.value, finding.low, finding.high, least=digits)


def _sides(experiment: ExperimentFiles, rule: ClaimRule | None) -> tuple[SeedValue, ...]:
    findings = (experiment.findings.get(f"{side}/{rule.metric}/{rule.statistic}") for side in rule.sides) if rule else ()
    return tuple(seed for finding in findings if finding for seed in finding.seeds)


def rule_words(rule: ClaimRule) -> str:
    """The rule as it was written before the data, in words."""
    health = "healthy runs only" if rule.included_only else "all runs"
    return (
        f"{metric_title(rule.metric)} (`{rule.metric}`), {rule.statistic}, {' minus '.join(rule.sides)}, {rule.direction} "
        f"{numbers.signed_setting(rule.margin)}, {numbers.plural(rule.needs.seeds, 'seed')} a condition, {health}"
    )


def _needed(verdict: Verdict, finding: Finding | None, about: str = "") -> str:
    """How many seeds would decide, and which way, if the value seen is the true one."""
    seeds = f"{about}{numbers.plural(verdict.seeds_needed or 0, 'seed')} a condition would decide"
    if finding is None or finding.value is None:
        return f"At the observed spread, {seeds}."
    holds = finding.value > verdict.margin if verdict.direction == "above" else finding.value < verdict.margin
    return f"If the value seen is the true one, {seeds} {'for' if holds else 'against'} the claim."


def _cause(verdict: Verdict) -> str:
    """Why a claim is void, without the runs' reasons in brackets."""
    return (verdict.cause or verdict.why.removeprefix("Void: ")).rstrip(".") + "."


_LIES = {
    "supported": "The whole interval lies {side} {margin}.",
    "refuted": "No part of the interval lies {side} {margin}.",
    "inconclusive": "The interval contains {margin}.",
}


def explain_verdict(verdict: Verdict, finding: Finding | None, *, listed: bool) -> str:
    """Where the interval lies; of a void claim the analysis's words, without the runs' reasons where those are `listed`."""
    if verdict.verdict == "open":
        return verdict.why if finding is None or finding.value is None else f"{verdict.why} The number is so far, and not final."
    if verdict.verdict == "void" or finding is None:
        why = verdict.why.removeprefix("Void: ")
        return f"Not decided: {_cause(verdict)}" if listed else f"{why[:1].upper()}{why[1:]}"
    margin = f"the margin {numbers.signed_setting(verdict.margin)}"
    if finding.low is None:
        return f"There is no interval ({finding.method}), so the value alone does not say on which side of {margin} the truth lies."
    parts = [_LIES[verdict.verdict].format(side=verdict.direction, margin=margin)]
    if finding.equal_seeds:
        parts.append(f"The {finding.method}; it does not cover other seeds.")
    if verdict.detectable is not None:
        parts.append(f"These seeds could have shown a distance of {numbers.number(verdict.detectable)} from it (80% power).")
    if verdict.seeds_needed is not None:
        parts.append(_needed(verdict, finding))
    return " ".join(parts)
