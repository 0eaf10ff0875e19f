"""Where the spec declares the expectation or the stop rule that asked for a number."""

from __future__ import annotations

from stages.contracts.finding import Finding
from stages.contracts.origin import Origin
from stages.publish.experiment import ExperimentFiles

_CARD = "analysis/conclude.card.json"


def expectation_place(experiment: ExperimentFiles, expectation: str) -> Origin | None:
    """The place of an expectation by its id."""
    names = [card.id for card in experiment.conclude.expectations] if experiment.conclude else []
    pointer = f"/expectations/{names.index(expectation)}" if expectation in names else ""
    return experiment.origins.cards.get(_CARD, {}).get(pointer)


def rule_place(experiment: ExperimentFiles, condition: str, rule: str) -> Origin | None:
    """The place of a stop rule of a condition."""
    for index, entry in enumerate(experiment.conclude.stops if experiment.conclude else ()):
        names = [card.id for card in entry.stop.rules]
        if entry.condition == condition and rule in names:
            return experiment.origins.cards.get(_CARD, {}).get(f"/stops/{index}/stop/rules/{names.index(rule)}")
    return None


def asked_by(experiment: ExperimentFiles, finding: Finding) -> tuple[str, ...]:
    """`specs/quickstart.yaml:60:5 expectation learns`: each that a number answers, with its place."""
    found: dict[str, None] = {}
    for score in experiment.conclusions.expectations:
        if finding.id == score.finding or any(run.finding == finding.id for run in score.runs):
            found[_placed(expectation_place(experiment, score.expectation), f"expectation {score.expectation}")] = None
    for result in experiment.conclusions.rules:
        if finding.id in (f"{result.condition}/{result.rule}/stopped", result.first, result.value, result.held, result.stop):
            found[_placed(rule_place(experiment, result.condition, result.rule), f"stop rule {result.rule}")] = None
    return tuple(found)


def _placed(place: Origin | None, what: str) -> str:
    return f"{place} {what}" if place is not None else what
