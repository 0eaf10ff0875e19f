"""Claims -> verdicts. A claim's rule was written before the data; nothing here looks at anything but its finding.

supported: the whole interval lies beyond the margin in the claimed direction. refuted: it lies wholly on the other side.
inconclusive: it contains the margin, or the seeds do not differ, which leaves no interval. void: too few healthy seeds, missing data, or
a comparison that means nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from stages.analyse.evidence import Evidence
from stages.analyse.findings import WITH_EXCLUDED, seeds_of, values_of
from stages.analyse.statistics import NO_SPREAD, detectable, seeds_needed
from stages.contracts.analysis_card import ConditionCard
from stages.contracts.claim import ClaimRule
from stages.contracts.finding import Finding, SeedValue, Verdict
from stages.contracts.formulas import logged_inputs
from stages.contracts.history import POLICY_LOSSES, REWARD_UNITS, metric
from stages.rules import beside, bound_text

_LOGGED: Mapping[str, str] = {}
"""No metric is derived."""
OPEN = "Not decided: verdicts are given when the runs have ended, by dvc repro."


def finding_id(claim: ClaimRule) -> str:
    """Id of the finding that decides a claim."""
    return f"{'-vs-'.join(claim.sides)}/{claim.metric}/{claim.statistic}{'' if claim.included_only else WITH_EXCLUDED}"


def refusal(
    claim: ClaimRule, conditions: Iterable[ConditionCard], imported: Container[str] = (), derived: Mapping[str, str] = _LOGGED
) -> str:
    """Why the claim rests on what is no progress, or compares what cannot be compared; empty when it may be decided. A change may be held
    against a null control's: that is noise. `imported`: conditions whose runs were, so that it is not known what their loss is."""
    cards = {condition.name: condition for condition in conditions}
    sampled = [name for name in claim.sides if name in cards and name not in imported and not cards[name].supervised]
    inputs = logged_inputs(claim.metric, derived)
    if inputs & POLICY_LOSSES and sampled:
        return f"{claim.metric} of {_and(sampled)} is no progress (on-policy: minus the covariance of advantage and length, plus beta x KL)"
    if claim.contrast is None or not any(known.unit in REWARD_UNITS for name in inputs if (known := metric(name))):
        return ""
    left, right = (cards[name] for name in claim.sides)
    if left.reward == right.reward or (claim.statistic == "change" and right.role == "null_control"):
        return ""
    return (
        f"{left.name} and {right.name} have different rewards ({left.reward}, {right.reward}), so {claim.metric} cannot rank them; "
        "compare them on the shared evaluation"
    )


def decide(claim: ClaimRule, evidence: Evidence, finding: Finding | None) -> Verdict:
    """The verdict on one claim; none is given while runs go on. `finding` is None when the comparison was refused."""
    verdict, why, more = ("open", OPEN, {}) if evidence.card.is_open else _decide(claim, evidence, finding)
    own = {"claim": claim.id, "direction": claim.direction, "margin": claim.margin, "finding": finding.id if finding else None}
    return Verdict.model_validate({**own, "verdict": verdict, "why": why, **more})


def _decide(claim: ClaimRule, evidence: Evidence, finding: Finding | None) -> tuple[str, str, dict[str, Any]]:
    """Verdict, sentence, and the fields that only some verdicts have."""
    refused = refusal(claim, evidence.conditions, evidence.imported, evidence.card.derived)
    if refused or finding is None:
        return "void", f"Void: {refused or 'nothing was computed'}.", {"finding": None}
    groups = {name: seeds_of(finding, evidence, name) for name in claim.sides}
    values = [values_of(group) for group in groups.values()]
    lacking = [
        (f"{name} has {len(own)} of the {claim.needs.seeds} seeds needed", _losses(evidence, group))
        for (name, group), own in zip(groups.items(), values, strict=True)
        if len(own) < claim.needs.seeds
    ]
    if lacking:
        why = f"Void: {'; '.join(f'{words}{losses}' for words, losses in lacking)}."
        return "void", why, {"cause": "; ".join(words for words, _ in lacking)} | ({"finding": None} if finding.value is None else {})
    subject = f"{claim.metric} ({claim.statistic}) of {' minus '.join(claim.sides)}"
    seeds = f"{' and '.join(str(len(own)) for own in values)} seeds"
    if finding.value is not None and finding.equal_seeds and finding.low is None:
        return "inconclusive", f"{subject} is {finding.value:.3g} in {seeds}: {NO_SPREAD}, and decides nothing.", {}
    if finding.value is None or finding.low is None or finding.high is None:
        return "void", f"Void: {finding.reason or f'there is no interval ({finding.method})'}.", {}
    value, low, high = (beside(number, claim.margin) for number in (finding.value, finding.low, finding.high))
    numbers = f"{subject} is {value} ({evidence.card.level * 100:g}% interval {low} to {high}, {seeds})"
    beyond, short_of = finding.low > claim.margin, finding.high < claim.margin
    if claim.direction == "below":
        beyond, short_of = short_of, beyond
    if beyond or short_of:
        why = f"{numbers}: {'all' if beyond else 'none'} of the interval is {claim.direction} {bound_text(claim.margin)}."
        why += " The seeds are equal: the interval is that of their completions." if finding.equal_seeds else ""
        return "supported" if beyond else "refuted", why, {}
    why = f"{numbers}: the interval contains {bound_text(claim.margin)}."
    if finding.equal_seeds:
        return "inconclusive", f"{why} The seeds are equal, so their spread says nothing of how many it takes.", {}
    distance, smallest = abs(finding.value - claim.margin), detectable(values, evidence.card.level)
    needed = seeds_needed(values, distance, evidence.card.level)
    why += f" These seeds could have shown a distance of {smallest:.3g} from it"
    why += f"; the distance seen, {distance:.3g}, needs {needed} seeds a condition." if needed else "; no number of seeds is in sight."
    return "inconclusive", why, {"detectable": smallest, "seeds_needed": needed}


def _losses(evidence: Evidence, seeds: Iterable[SeedValue]) -> str:
    """Runs by the first reason for which each is lost."""
    reasons = {run.ref.name: run.health.reasons for run in (*evidence.runs, *evidence.others) if run.health}
    lost: dict[str, list[str]] = {}
    for seed in seeds:
        if not seed.included:
            lost.setdefault(next(iter(reasons.get(seed.run, ())), seed.why), []).append(seed.run)
    return f" ({'; '.join(f'{_and(runs)}: {why}' for why, runs in lost.items())})" if lost else ""


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
