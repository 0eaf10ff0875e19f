"""Which metrics the history of a condition has, logged or derived from logged ones: what claims and health gates may name."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from compiler.build.imports import ImportedTraining
from compiler.language.expand import Expansion, Setup
from stages.contracts.algorithms import ALGORITHMS
from stages.contracts.formulas import read_formula
from stages.contracts.history import EVALUATION_MEASURES, GATE_METRICS, METRICS, PENALTY_METRICS
from stages.contracts.training import GroupedSettings, TrainSettings


def logs_kl(train: TrainSettings) -> bool:
    """Whether the trainer measures the KL to the reference model: TRL does not load one when nothing uses it."""
    return "kl" in logged_by(train.algorithm) and (not isinstance(train, GroupedSettings) or train.beta > 0)


@functools.cache
def logged_by(algorithm: str) -> tuple[str, ...]:
    """History metrics that runs of an algorithm log."""
    alias = ALGORITHMS[algorithm].logs or algorithm if algorithm in ALGORITHMS else algorithm
    return tuple(name for name, metric in METRICS.items() if not metric.algorithms or alias in metric.algorithms)


def logged_by_all(sides: Iterable[Setup]) -> list[str]:
    """Metrics that every one of the setups has."""
    logged = [_logged(setup) for setup in sides]
    return [name for name in logged[0] if all(name in other for other in logged[1:])] if logged else list(METRICS)


def logged_by_any(setups: Iterable[Setup]) -> list[str]:
    """Metrics that at least one of the setups has."""
    return list(dict.fromkeys(name for setup in setups for name in _logged(setup)))


def question_metrics(expansion: Expansion) -> list[str]:
    """Metrics that a question may name: what some condition logs, and scores of the shared evaluation."""
    scores = [f"evaluation.{use.card.name}.{measure}" for use in expansion.scores for measure in EVALUATION_MEASURES[:2]]
    scores += [f"evaluation.{score.name}.pass_share" for score in expansion.combined]
    return [*logged_by_any(expansion.setups), *scores]


def _logged(setup: Setup) -> dict[str, None]:
    """Metrics of one setup, in order."""
    logged = _trained(setup) if not isinstance(setup.train, ImportedTraining) else dict.fromkeys(setup.train.metrics)
    for name, text in setup.derived.items():
        logged |= {name: None} if set(read_formula(text).metrics) <= logged.keys() else {}
    return logged


def _trained(setup: Setup) -> dict[str, None]:
    gates, penalties = sorted(use.card.name for use in setup.reward.gates), sorted(penalty.name for penalty in setup.reward.penalties)
    own = [name for name in logged_by(setup.train.algorithm) if name != "kl" or logs_kl(setup.train)]
    own += [f"gate.{gate}.{measure}" for gate in gates for measure in GATE_METRICS]
    return dict.fromkeys([*own, *(f"penalty.{penalty}.{measure}" for penalty in penalties for measure in PENALTY_METRICS)])
