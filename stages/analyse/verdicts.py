"""Claims -> verdicts. A claim's rule was written before the data; nothing here looks at anything but its finding.

supported: the whole interval lies beyond the margin in the claimed direction. refuted: it lies wholly on the other side.
inconclusive: it contains the margin, or the seeds do not differ, which leaves no interval. void: too few healthy seeds, missing data, or
a comparison that means nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from stages.analyse.evidence import Evidence, meaning
from stages.analyse.findings import WITH_EXCLUDED, Group
from stages.analyse.statistics import NO_SPREAD, detectable, seeds_needed
from stages.contracts.analysis_card import ConditionCard
from stages.contracts.claim import ClaimRule
from stages.contracts.finding import Finding, Verdict
from stages.contracts.history import POLICY_LOSSES, REWARD_UNITS
from stages.rules import beside, bound_text


def finding_id(claim: ClaimRule) -> str:
    """Id of the finding that decides a claim."""
    subject = f"{claim.contrast.condition}-vs-{claim.contrast.against}" if claim.contrast else claim.condition
    return f"{subject}/{claim.metric}/{claim.statistic}{'' if claim.included_only else WITH_EXCLUDED}"


def refusal(claim: ClaimRule, conditions: Iterable[ConditionCard], imported: Container[str] = ()) -> str:
    """Why the claim rests on what is no progress, or compares what cannot be compared; empty when it may be decided. A change may be held
    against a null control's: that is noise. `imported`: conditions whose runs were, so that nobody knows what their loss is."""
    cards = {condition.name: condition for condition in conditions}
    sampled = [name for name in _sides(claim) if name in cards and name not in imported and not cards[name].supervised]
    if claim.metric in POLICY_LOSSES and sampled:
        return f"{claim.metric} of {_and(sampled)} is no progress (on-policy: minus the covariance of advantage and length, plus beta x KL)"
    if claim.contrast is None or meaning(claim.metric).unit not in REWARD_UNITS:
        return ""
    left, right = _sides(claim)
    rewards = {name: card.reward for name, card in cards.items()}
    if rewards[left] == rewards[right] or (claim.statistic == "change" and cards[right].role == "null_control"):
        return ""
    return (
        f"{left} and {right} have different rewards ({rewards[left]}, {rewards[right]}), so {claim.metric} cannot rank them; "
        "compare them on the shared evaluation"
    )


def decide(claim: ClaimRule, evidence: Evidence, finding: Finding | None) -> Verdict:
    """The verdict on one claim. `finding` is None when the comparison was refused."""
    level = evidence.card.level
    refused = refusal(claim, evidence.card.conditions, evidence.imported)
    if refused or finding is None:
        return _verdict(claim, "void", f"Void: {refused or 'nothing was computed'}.", None)
    groups = _groups(claim, evidence)
    lacking = [
        (f"{found.condition} has {len(found.values)} of the {claim.needs.seeds} seeds needed", _losses(found))
        for found in groups
        if len(found.values) < claim.needs.seeds
    ]
    if lacking:
        why = "; ".join(f"{words}{losses}" for words, losses in lacking)
        void = _verdict(claim, "void", f"Void: {why}.", finding.id if finding.value is not None else None)
        return void.model_copy(update={"cause": "; ".join(words for words, _ in lacking)})
    if finding.value is not None and finding.equal_seeds and finding.low is None:
        same = f"{_subject(claim)} is {finding.value:.3g} in {_counted(groups)}: {NO_SPREAD}, and decides nothing."
        return _verdict(claim, "inconclusive", same, finding.id)
    if finding.value is None or finding.low is None or finding.high is None:
        return _verdict(claim, "void", f"Void: {finding.reason or f'there is no interval ({finding.method})'}.", finding.id)
    value, low, high = (beside(number, claim.margin) for number in (finding.value, finding.low, finding.high))
    numbers = f"{_subject(claim)} is {value} ({level * 100:g}% interval {low} to {high}, {_counted(groups)})"
    beyond, short_of = finding.low > claim.margin, finding.high < claim.margin
    if claim.direction == "below":
        beyond, short_of = short_of, beyond
    equal = " The seeds are equal: the interval is that of their completions." if finding.equal_seeds else ""
    for verdict, holds, how_much in (("supported", beyond, "all"), ("refuted", short_of, "none")):
        if holds:
            why = f"{numbers}: {how_much} of the interval is {claim.direction} {bound_text(claim.margin)}.{equal}"
            return _verdict(claim, verdict, why, finding.id)
    return _inconclusive(claim, finding, [found.values for found in groups], numbers, level)


def _inconclusive(claim: ClaimRule, finding: Finding, values: Sequence[Sequence[float]], numbers: str, level: float) -> Verdict:
    why = f"{numbers}: the interval contains {bound_text(claim.margin)}."
    if finding.equal_seeds:
        return _verdict(claim, "inconclusive", f"{why} The seeds are equal, so their spread says nothing of how many it takes.", finding.id)
    smallest = detectable(values, level)
    if smallest is None:  # above 1e308
        return _verdict(claim, "inconclusive", why, finding.id)
    distance = abs((finding.value or 0.0) - claim.margin)
    needed = seeds_needed(values, distance, level)
    why += f" These seeds could have shown a distance of {smallest:.3g} from it"
    why += f"; the distance seen, {distance:.3g}, needs {needed} seeds a condition." if needed else "; no number of seeds is in sight."
    return _verdict(claim, "inconclusive", why, finding.id, smallest, needed)


def _groups(claim: ClaimRule, evidence: Evidence) -> list[Group]:
    return [Group(evidence, name, claim.metric, claim.statistic, everyone=not claim.included_only) for name in _sides(claim)]


def _sides(claim: ClaimRule) -> list[str]:
    return [claim.contrast.condition, claim.contrast.against] if claim.contrast else [claim.condition or ""]


def _counted(groups: Sequence[Group]) -> str:
    return f"{' and '.join(str(len(found.values)) for found in groups)} seeds"


def _losses(found: Group) -> str:
    """Runs by the first reason for which each is lost."""
    lost: dict[str, list[str]] = {}
    for run, seed in zip(found.runs, found.seeds, strict=True):
        if not seed.included:
            first = run.health.reasons[0] if run.health and run.health.reasons else seed.why
            lost.setdefault(first, []).append(seed.run)
    return f" ({'; '.join(f'{_and(runs)}: {why}' for why, runs in lost.items())})" if lost else ""


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _subject(claim: ClaimRule) -> str:
    who = f"{claim.contrast.condition} minus {claim.contrast.against}" if claim.contrast else claim.condition
    return f"{claim.metric} ({claim.statistic}) of {who}"


def _verdict(
    claim: ClaimRule, verdict: str, why: str, finding: str | None, smallest: float | None = None, needed: int | None = None
) -> Verdict:
    return Verdict(
        claim=claim.id,
        verdict=verdict,
        why=why,
        finding=finding,
        direction=claim.direction,
        margin=claim.margin,
        detectable=smallest,
        seeds_needed=needed,
    )
