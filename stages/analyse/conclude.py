"""Stage `conclude`: every number that a page may show, and the verdicts on the claims.

    python -m stages.analyse.conclude runs/<experiment>

Reads analysis/conclude.card.json, preflight, and each run's history, completions, evaluation, health and ledger; writes
analysis/findings.json.

Ids of findings are `<subject>/<metric>/<statistic>`; the column `id` of findings.csv holds all forms. Pages, `octavo trace` and the
author's prose refer to them. A subject is a run, a condition, `<condition>-vs-<against>`, `untrained` or `experiment`. A claim that counts
excluded runs too adds `-with-excluded` to its statistic.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stages.analyse import outcomes
from stages.analyse.counts import count_findings, question_findings
from stages.analyse.evidence import ENDS, MEASURES, Evidence, history_metrics
from stages.analyse.findings import run_finding, seeds_finding, untrained_finding
from stages.analyse.frames import POINTS
from stages.analyse.load import load_evidence
from stages.analyse.tables import table_findings
from stages.analyse.verdicts import decide, finding_id, refusal
from stages.contracts.analysis_card import ConcludeCard, ConditionCard
from stages.contracts.artifact import write
from stages.contracts.finding import Finding, Findings
from stages.contracts.history import of_completions
from stages.contracts.layout import ExperimentFolder
from stages.contracts.stage import card_id, main, open_card, print_text

MODULES = ("stages.analyse.conclude",)


def conclude(folder: Path) -> None:
    """Write findings.json."""
    experiment = ExperimentFolder(folder)
    card = open_card(ConcludeCard, experiment.conclude_card, MODULES)
    evidence = load_evidence(experiment, card)
    findings: dict[str, Finding] = {}
    for finding in _findings(evidence):
        findings.setdefault(finding.id, finding)
    expectations, rules = list(outcomes.expected(evidence)), list(outcomes.ruled(evidence))
    ruled = tuple(rule for rule, _ in rules)
    numbers = [finding for _, own in (*expectations, *rules) for finding in own]
    findings |= {finding.id: finding for finding in (*numbers, *outcomes.stopped_counts(evidence, ruled))}
    verdicts = tuple(decide(claim, evidence, findings.get(finding_id(claim))) for claim in card.claims)
    scores = tuple(score for score, _ in expectations)
    conclusions = Findings(
        card_id=card_id(card),
        experiment=card.experiment,
        claims_tested=len(card.claims),
        findings=tuple(findings.values()),
        verdicts=verdicts,
        expectations=scores,
        rules=ruled,
    )
    write(experiment.findings, conclusions)
    for verdict in verdicts:
        print_text(f"conclude: {verdict.claim}: {verdict.verdict}. {verdict.why}")
    for score in scores:
        met = sum(run.state == "met" for run in score.runs)
        print_text(f"conclude: {score.expectation}: met by {met} of {len(score.runs)} runs of {score.condition}")


def _findings(evidence: Evidence) -> Iterator[Finding]:
    scores = [f"evaluation.{score}.{measure}" for score in evidence.card.evaluation for measure in MEASURES]
    evaluated = [(name, statistic) for name in scores for statistic in ("final", "change")]
    yield from (untrained_finding(evidence, name) for name in scores)
    for condition in evidence.card.conditions:
        gates = [f"gate.{gate}.{measure}" for gate in condition.gates for measure in MEASURES]
        for name, statistic in (*_trained(evidence, condition, *gates), *evaluated):
            yield seeds_finding(evidence, [condition.name], name, statistic)
    conditions = {condition.name: condition for condition in evidence.card.conditions}
    for run in evidence.runs:
        own = (*_trained(evidence, conditions[run.ref.condition]), *evaluated)
        yield from (run_finding(evidence, run, name, statistic) for name, statistic in own)
    yield from _contrasts(evidence)
    yield from count_findings(evidence)
    yield from question_findings(evidence)
    yield from table_findings(evidence)


def _trained(evidence: Evidence, condition: ConditionCard, *more: str) -> list[tuple[str, str]]:
    """Metrics that a condition can have, with their statistics: gold answers have no completions, and so no rewards."""
    names = [name for name in history_metrics(evidence.card) if not (condition.supervised and of_completions(name))]
    statistics = {name: (*ENDS, "change", *(POINTS if name in evidence.card.points else ())) for name in (*names, *more)}
    return [(name, statistic) for name, own in statistics.items() for statistic in own]


def _contrasts(evidence: Evidence) -> Iterator[Finding]:
    """Every condition against each null control on the shared evaluation, then what the claims name."""
    conditions = evidence.card.conditions
    controls = [condition.name for condition in conditions if condition.role == "null_control"]
    pairs = [[condition.name, control] for condition in conditions for control in controls if control != condition.name]
    for pair in pairs:
        names = (f"evaluation.{score}.{measure}" for score in evidence.card.evaluation for measure in MEASURES)
        yield from (seeds_finding(evidence, pair, name, "final") for name in names)
    for claim in evidence.card.claims:
        if claim.contrast is None or not refusal(claim, evidence.conditions, evidence.imported, evidence.card.derived):
            yield seeds_finding(evidence, claim.sides, claim.metric, claim.statistic, everyone=not claim.included_only)
        if claim.elsewhere:
            yield seeds_finding(evidence, [claim.elsewhere.name], claim.metric, claim.statistic)


if __name__ == "__main__":
    main(conclude, "python -m stages.analyse.conclude runs/<experiment>")
