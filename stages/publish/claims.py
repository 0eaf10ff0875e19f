"""Claims as a reader meets them: the verdict as a word and a mark, the interval drawn against the margin, seeds in and out."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.analysis_card import ClaimCard
from stages.contracts.finding import Finding, SeedValue, Verdict
from stages.contracts.metric_words import words
from stages.contracts.origin import Origin
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts, interval_text
from stages.publish.text import shown

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
    seeds: tuple[SeedValue, ...]
    values: dict[str, str]
    with_all: str
    place: Origin | None
    written: str
    """When the rule was committed, against the first data."""
    late: bool
    """The rule is younger than the first data."""

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
    written, late = experiment.rules_written.get(claim, ("unknown", False))
    return ClaimView(
        id=claim,
        says=says,
        verdict=verdict.verdict,
        why=_why(verdict, finding, listed=any(not seed.included and seed.why for seed in seeds)),
        short=_short(verdict),
        rule=rule_words(rule) if rule else "",
        fact=facts.interval(finding) if finding else None,
        level=numbers.percent(finding.level) if finding and finding.level else "",
        bar=interval_bar(finding, verdict) if finding else None,
        seeds=seeds,
        values={seed.run: numbers.number(seed.value, unit, decimals=digits) for seed in seeds},
        with_all=_with_all(finding),
        place=experiment.origins.claims.get(claim),
        written=written,
        late=late,
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


def _with_all(finding: Finding | None) -> str:
    if finding is None or finding.with_all is None:
        return ""
    signed = finding.statistic in numbers.SIGNED
    return numbers.number(finding.with_all, decimals=numbers.decimals_for(finding.value, finding.low, finding.high), signed=signed)


def _short(verdict: Verdict) -> str:
    if verdict.verdict == "void":
        return f"Not decided: {_cause(verdict)}"
    if verdict.verdict == "inconclusive" and verdict.seeds_needed is not None:
        return f"About {numbers.plural(verdict.seeds_needed, 'seed')} a condition would decide."
    return ""


def _cause(verdict: Verdict) -> str:
    """Why a claim is void, without the runs' reasons in brackets."""
    return verdict.why.removeprefix("Void: ").split(" (", 1)[0].rstrip(".") + "."


def _why(verdict: Verdict, finding: Finding | None, *, listed: bool) -> str:
    """Where the interval lies, in one sentence; of a void claim the analysis's words, briefly where the runs' reasons are `listed`."""
    if verdict.verdict == "void" or finding is None:
        return f"Not decided: {_cause(verdict)}" if listed else verdict.why.removeprefix("Void: ")
    margin = f"the margin {numbers.setting(verdict.margin).replace('-', numbers.MINUS)}"
    if verdict.verdict == "supported":
        return f"The whole interval lies {verdict.direction} {margin}."
    if verdict.verdict == "refuted":
        return f"No part of the interval lies {verdict.direction} {margin}."
    parts = [f"The interval contains {margin}."]
    if verdict.detectable is not None:
        parts.append(f"These seeds could have shown a distance of {numbers.number(verdict.detectable)} from it (80% power).")
    if verdict.seeds_needed is not None:
        parts.append(f"At the observed spread, {numbers.plural(verdict.seeds_needed, 'seed')} a condition would decide.")
    return " ".join(parts)


_WIDTH, _EDGE = 320, 12
_BAR = Markup(
    '<svg class="bar {verdict}" viewBox="0 0 {width} 58" role="img" aria-label="{label}">'
    '<rect class="side" x="{side_x}" y="8" width="{side_width}" height="24"/>'
    '<line class="axis" x1="0" y1="20" x2="{width}" y2="20"/>'
    "{zero}"
    '<line class="margin" x1="{margin}" y1="4" x2="{margin}" y2="36"/>'
    '<text class="margin" x="{margin_text}" y="50" text-anchor="middle">margin {margin_label}</text>'
    '{whisker}<circle class="point" cx="{value}" cy="20" r="5"/></svg>'
)
_ZERO = Markup('<line class="zero" x1="{at}" y1="12" x2="{at}" y2="28"/>{label}')
_WHISKER = Markup(
    '<line class="whisker" x1="{low}" y1="20" x2="{high}" y2="20"/>'
    '<line class="cap" x1="{low}" y1="14" x2="{low}" y2="26"/><line class="cap" x1="{high}" y1="14" x2="{high}" y2="26"/>'
)


def interval_bar(finding: Finding, verdict: Verdict) -> Markup | None:
    """The interval as a bar against the margin; the claimed side is shaded. None when there is no value to draw."""
    if finding.value is None:
        return None
    marks = [0.0, verdict.margin, finding.value, *(x for x in (finding.low, finding.high) if x is not None)]
    least, most = min(marks), max(marks)
    span = (most - least) or 1.0
    least, most = least - 0.12 * span, most + 0.12 * span

    def at(x: float) -> float:
        return round(_EDGE + (x - least) / (most - least) * (_WIDTH - 2 * _EDGE), 1)

    margin = at(verdict.margin)
    above = verdict.direction == "above"
    zero_label = Markup('<text x="{}" y="50" text-anchor="middle">0</text>').format(at(0.0)) if abs(at(0.0) - margin) > 50 else Markup("")
    return _BAR.format(
        verdict=verdict.verdict,
        width=_WIDTH,
        label=shown(f"{interval_text(finding)} against the margin {numbers.setting(verdict.margin)}, {verdict.direction}"),
        side_x=margin if above else 0,
        side_width=round(_WIDTH - margin if above else margin, 1),
        zero=_ZERO.format(at=at(0.0), label=zero_label) if verdict.margin else Markup(""),
        margin=margin,
        margin_text=min(max(margin, 40), _WIDTH - 40),
        margin_label=shown(numbers.setting(verdict.margin).replace("-", numbers.MINUS)),
        whisker=_WHISKER.format(low=at(finding.low), high=at(finding.high))
        if finding.low is not None and finding.high is not None
        else Markup(""),
        value=at(finding.value),
    )
