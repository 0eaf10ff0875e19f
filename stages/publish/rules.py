"""Claimed metrics, expectations, stop rules, actions and contingency plans: what the templates say of them, and where the spec has them."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from stages.contracts.finding import Expected, Finding, Ruled, RunScore
from stages.contracts.lineage import Origin
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts


def printed(facts: Facts, score: Expected) -> list[tuple[RunScore, Markup, str]]:
    """(score of a run, value, why there is none), the values in equal digits."""
    findings = [facts.get(run.finding) for run in score.runs]
    values = [finding.value for finding in findings if finding.value is not None]
    least = max((facts.digits(finding) or 0 for finding in findings), default=0)
    bounds = [score.bound] if score.upper is None else [score.bound, score.upper]
    digits = max((numbers.decimals_beside(bound, value, value, value, least=least) for value in values for bound in bounds), default=least)
    return [(run, facts.value(f, digits), run.why if f.value is None else "") for run, f in zip(score.runs, findings, strict=True)]


def rules(experiment: ExperimentFiles) -> dict[tuple[str, str, str], list[Ruled]]:
    """(condition, rule, the rule in words) -> what it did in each run, in the order of runs."""
    groups: dict[tuple[str, str, str], list[Ruled]] = {}
    for result in experiment.conclusions.rules:
        groups.setdefault((result.condition, result.rule, result.says), []).append(result)
    return groups


def claimed_metric(experiment: ExperimentFiles) -> str:
    """The shared evaluation's number that a reader looks at first: that of the first claim on it, else its first score's pass share;
    empty without a shared evaluation."""
    claimed = (
        claim.metric for claim in (experiment.conclude.claims if experiment.conclude else ()) if claim.metric.startswith("evaluation.")
    )
    return next(claimed, f"evaluation.{experiment.card.evaluation[0]}.pass_share" if experiment.card.evaluation else "")


def expectation_place(experiment: ExperimentFiles, expectation: str) -> Origin | None:
    """Where the spec declares an expectation."""
    names = (expectation.name for expectation in experiment.conclude.expectations) if experiment.conclude else ()
    return _place(experiment, "/expectations", names, expectation)


def rule_place(experiment: ExperimentFiles, condition: str, rule: str) -> Origin | None:
    """Where the spec declares a stop rule of a condition."""
    stop = experiment.conclude.stops.get(condition) if experiment.conclude else None
    return _place(experiment, f"/stops/{condition}/rules", (card.id for card in stop.rules) if stop else (), rule)


def _place(experiment: ExperimentFiles, pointer: str, names: Iterable[str], name: str) -> Origin | None:
    """Of one of the entries of a list on the card of the analysis."""
    places = experiment.origins.cards.get("analysis/conclude.card.json", {})
    return next((places.get(f"{pointer}/{index}") for index, other in enumerate(names) if other == name), None)


def asked_by(experiment: ExperimentFiles, finding: Finding) -> tuple[str, ...]:
    """`specs/quickstart.yaml:60:5 expectation learns`: the expectations and rules that a number answers, with their places."""
    asked: dict[tuple[str, Origin | None], None] = {}
    for score in experiment.conclusions.expectations:
        if finding.id == score.finding or any(run.finding == finding.id for run in score.runs):
            asked[f"expectation {score.expectation}", expectation_place(experiment, score.expectation)] = None
    for result in experiment.conclusions.rules:
        if finding.id in (f"{result.condition}/{result.rule}/stopped", result.first, result.value, result.held, result.stop):
            asked[f"stop rule {result.rule}", rule_place(experiment, result.condition, result.rule)] = None
    return tuple(f"{place} {name}" if place else name for name, place in asked)
