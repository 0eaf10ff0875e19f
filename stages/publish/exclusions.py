"""Why runs do not count, in plain words."""

from __future__ import annotations

from collections.abc import Iterable

from stages.contracts.finding import SeedValue
from stages.contracts.metric_words import words
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import listed


def left_out(run: RunFiles) -> list[str]:
    """Reasons that a run is left out; none when it counts."""
    gates, others = _reasons(run)
    return [*(in_words(name, says) for name, _, says in gates), *others]


def why(experiment: ExperimentFiles, seed: SeedValue) -> str:
    """Why a seed is left out of a number, or has no value, with the run's reasons in the page's words."""
    run = experiment.by_name.get(seed.run)
    if run is None or run.health is None or not run.health.reasons:
        return seed.why
    return seed.why.replace("; ".join(run.health.reasons), "; ".join(left_out(run)))


def in_words(gate: str, text: str) -> str:
    """A gate's rule or answer with its metric in words."""
    return words(gate) + text.removeprefix(gate) if text.startswith(f"{gate} ") else text


def causes(runs: Iterable[RunFiles]) -> str:
    """All reasons of all runs: each failed gate's rule once, with the runs that it leaves out; most runs first."""
    rules: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for run in runs:
        gates, reasons = _reasons(run)
        for name, rule, _ in gates:
            rules.setdefault(in_words(name, rule), []).append(run.ref.name)
        for reason in reasons:
            others.setdefault(reason, []).append(run.ref.name)
    parts = [f"{rule} ({listed(names)})" for rule, names in sorted(rules.items(), key=lambda rule: -len(rule[1]))]
    not_met = [f"Not met: {'; '.join(parts)}."] if parts else []
    return " ".join([*not_met, *(f"{listed(names)}: {reason}." for reason, names in others.items())])


def _reasons(run: RunFiles) -> tuple[list[tuple[str, str, str]], list[str]]:
    """(gate, rule, answer) of the gates that keep the run out, and every other reason."""
    if run.health is None:
        return [], ["no health was measured"]
    by_gate = {f"gate {gate.gate}: {gate.says}": (gate.gate, gate.rule, gate.says) for gate in run.health.gates if not gate.passed}
    failure = run.health.failure or "unknown"
    return (
        [by_gate[reason] for reason in run.health.reasons if reason in by_gate],
        [reason.replace(failure, failure.replace("_", " ")) for reason in run.health.reasons if reason not in by_gate],
    )
