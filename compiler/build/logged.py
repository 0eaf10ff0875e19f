"""Which history metrics a condition logs: what claims and health gates may name."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from compiler.build.imports import ImportedTraining
from compiler.language.expand import Setup
from stages.contracts.algorithms import ALGORITHMS
from stages.contracts.history import GATE_METRICS, METRICS, PENALTY_METRICS
from stages.contracts.training import GroupedSettings, TrainSettings


def logs_kl(train: TrainSettings) -> bool:
    """Whether the trainer measures the KL to the reference model: TRL does not load one when nothing uses it."""
    return "kl" in logged_by(train.algorithm) and (not isinstance(train, GroupedSettings) or train.beta > 0)


@functools.cache
def logged_by(algorithm: str) -> tuple[str, ...]:
    """History metrics that runs of an algorithm log."""
    named = ALGORITHMS[algorithm].logs or algorithm if algorithm in ALGORITHMS else algorithm
    return tuple(name for name, metric in METRICS.items() if not metric.algorithms or named in metric.algorithms)


def logged_by_all(sides: Iterable[Setup]) -> list[str]:
    """Metrics that every one of the setups logs."""
    setups = list(sides)
    mapped = [setup.train.metrics for setup in setups if isinstance(setup.train, ImportedTraining)]
    if mapped:
        return list(mapped[0])  # one import maps the same metrics for all
    gates = [{use.card.name for use in setup.reward.gates} for setup in setups]
    penalties = [{penalty.name for penalty in setup.reward.penalties} for setup in setups]
    shared = sorted(set.intersection(*gates)) if gates else []
    held = sorted(set.intersection(*penalties)) if penalties else []
    without = set() if all(logs_kl(setup.train) for setup in setups) else {"kl"}
    of_all = [set(logged_by(setup.train.algorithm)) for setup in setups]
    own = [name for name in METRICS if all(name in of_one for of_one in of_all)]
    return [
        *(name for name in own if name not in without),
        *(f"gate.{gate}.{measure}" for gate in shared for measure in GATE_METRICS),
        *(f"penalty.{penalty}.{measure}" for penalty in held for measure in PENALTY_METRICS),
    ]


def logged_by_any(setups: Iterable[Setup]) -> list[str]:
    """Metrics that at least one of the setups logs."""
    found: dict[str, None] = {}
    seen: set[tuple[str, tuple[str, ...], tuple[str, ...], bool]] = set()
    for setup in setups:
        its = setup.reward
        names = tuple(use.card.name for use in its.gates), tuple(penalty.name for penalty in its.penalties)
        key = (setup.train.algorithm, *names, logs_kl(setup.train))
        if key not in seen:
            seen.add(key)
            found |= dict.fromkeys(logged_by_all([setup]))
    return list(found)
