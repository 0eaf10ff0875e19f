"""What the answers to the spec's questions are built from; `questions.html.j2` writes them. Every number is a finding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from markupsafe import Markup

from stages.contracts.finding import Finding
from stages.publish import numbers
from stages.publish.anomalies import unseen
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.numbers import listed

SURROGATES = ("grpo", "rloo", "ppo")
"""Algorithms whose loss is no measure of progress."""


class Collapse(NamedTuple):
    """Names of conditions by what the detector of collapse saw; null controls, which have no signal by design, are apart."""

    counts: dict[str, Finding | None]
    """Condition -> runs that collapsed of those it looked at."""
    null: list[str]
    lost: list[str]
    looked: list[str]
    blind: list[str]


class Movement(NamedTuple):
    """A metric in one condition, with the digits of its row."""

    first: Finding | None
    last: Finding | None
    change: Finding | None
    digits: int | None

    @property
    def ended(self) -> bool:
        return self.last is not None and self.last.value is not None

    @property
    def summed(self) -> bool:
        """The last value is one of an imported summary, which has no windows."""
        return self.last is not None and self.last.window.startswith("no window")


def conditions(experiment: ExperimentFiles) -> list[str]:
    return [condition.name for condition in experiment.card.conditions]


def collapse(experiment: ExperimentFiles, facts: Facts) -> Collapse:
    counts = {name: facts.find(name, "detector.collapse", "runs") for name in conditions(experiment)}
    null = [condition.name for condition in experiment.card.conditions if condition.role == "null_control"]
    meant = {name: count for name, count in counts.items() if name not in null}
    looked = [name for name, count in meant.items() if count and count.n]
    lost = [name for name, count in meant.items() if count and count.k]
    return Collapse(counts, sorted(null), lost, looked, [name for name in meant if name not in looked])


def movements(experiment: ExperimentFiles, facts: Facts, metric: str) -> dict[str, Movement]:
    """Condition -> where the metric began and ended. Each row has the digits with which the printed change adds up."""
    names = conditions(experiment)
    moved = {name: facts.moved(name, metric) for name in names}
    least = numbers.column_decimals((f.value, f.low, f.high) for row in moved.values() for f in row if f)
    digits = facts.moved_digits(names, metric, least=least)
    return {name: Movement(*row, digits[name]) for name, row in moved.items()}


def printed(facts: Facts, finding: Finding | None, digits: int | None, *, bounds: bool = True) -> Markup:
    """With the row's digits, but never a 0.0000 for a number that is not 0; the interval of such a number is in its passport."""
    if digits is not None and finding is not None and finding.value and abs(finding.value) < 0.5 * 10**-digits:
        return facts.value(finding)
    return facts.interval(finding, digits) if bounds else facts.value(finding, digits)


def changes(experiment: ExperimentFiles, facts: Facts, metric: str) -> dict[str, Finding]:
    """Condition -> change of the metric, where it has a value."""
    moved = {name: facts.find(name, metric, "change") for name in conditions(experiment)}
    return {name: change for name, change in moved.items() if change and change.value is not None}


def ends(experiment: ExperimentFiles, facts: Facts, condition: str, metric: str, statistic: str) -> list[tuple[RunFiles, Finding]]:
    """A statistic of each run of the condition that has it."""
    runs = ((run, facts.find(run.ref.name, metric, statistic)) for run in experiment.of_condition(condition))
    return [(run, finding) for run, finding in runs if finding]


def algorithms(experiment: ExperimentFiles) -> list[str]:
    cards = (experiment.train_card(name) for name in conditions(experiment))
    return list(dict.fromkeys(card.train.algorithm for card in cards if card)) or ["imported"]


def warned(experiment: ExperimentFiles, facts: Facts) -> Iterator[tuple[str, str, Finding]]:
    """(condition, detector, runs with warnings)."""
    metrics = dict.fromkeys(f.metric for f in experiment.findings.values() if f.metric.startswith("detector."))
    for name in conditions(experiment):
        for metric in metrics:
            count = facts.find(name, metric, "runs")
            if count and count.k:
                yield name, metric.removeprefix("detector."), count


def states(experiment: ExperimentFiles) -> Iterator[str]:
    """How runs ended, and what no detector could see, a sentence each."""
    runs = [(run, run.outcome) for run in experiment.runs]
    failed = [
        run.ref.name + (f" ({(outcome.failure or 'failed').replace('_', ' ')})" if outcome else "")
        for run, outcome in runs
        if run.state not in ("finished", "unknown")
    ]
    unknown = [f"{run.ref.name} ({outcome.unknown})" for run, outcome in runs if outcome and run.state == "unknown"]
    stopped = [f"{run.ref.name} ({outcome.stopped.rule})" for run, outcome in runs if outcome and outcome.stopped]
    if failed:
        yield f"Did not finish: {listed(failed)}."
    elif not unknown:
        yield "No run ended before its target by a failure."
    if unknown:
        yield f"Whether they finished is unknown: {listed(unknown)}."
    if stopped:
        yield f"Stopped early by a declared rule: {listed(stopped)}."
    blind: dict[str, dict[str, None]] = {}
    for detector, state, reason, _ in unseen(experiment):
        blind.setdefault(f"{state}: {reason}", {})[detector.replace("_", " ")] = None
    if blind:
        gaps = "; ".join(f"{listed(list(detectors))} ({why})" for why, detectors in blind.items())
        yield f"Could not look at some runs: {gaps}. Their health is not known there."


def failures(experiment: ExperimentFiles) -> list[str]:
    """How attempts ended that did not finish."""
    attempts = [attempt for run in experiment.runs for attempt in run.attempts if attempt.state != "finished"]
    return list(dict.fromkeys((a.ended.failure or "failed").replace("_", " ") if a.ended else "killed" for a in attempts))
