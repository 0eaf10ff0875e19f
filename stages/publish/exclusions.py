"""Why runs do not count, in plain words."""

from __future__ import annotations

from collections.abc import Iterable

from stages.contracts.finding import SeedValue
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import listed


def left_out(run: RunFiles) -> list[str]:
    """Reasons that a run is left out; none when it counts."""
    if run.health is None:
        return ["no health was measured"]
    return [exclusion.says for exclusion in run.health.exclusions] or list(run.health.reasons)


def why(experiment: ExperimentFiles, seed: SeedValue) -> str:
    """Why a seed is left out of a number, or has no value, with the run's reasons in the page's words."""
    run = experiment.by_name.get(seed.run)
    if run is None or run.health is None or not run.health.reasons:
        return seed.why
    return seed.why.replace("; ".join(run.health.reasons), "; ".join(left_out(run)))


def causes(runs: Iterable[RunFiles]) -> str:
    """All reasons of all runs: each failed gate's rule once, with the runs that it leaves out; most runs first."""
    rules: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for run in runs:
        failed = {exclusion.says: exclusion.rule for exclusion in (run.health.exclusions if run.health else ()) if exclusion.gate}
        for reason in left_out(run):
            reasons = rules if reason in failed else others
            reasons.setdefault(failed.get(reason, reason), []).append(run.ref.name)
    parts = [f"{rule} ({listed(names)})" for rule, names in sorted(rules.items(), key=lambda rule: -len(rule[1]))]
    not_met = [f"Not met: {'; '.join(parts)}."] if parts else []
    return " ".join([*not_met, *(f"{listed(names)}: {reason}." for reason, names in others.items())])
