"""Which history metrics a condition logs: what claims and health gates may name."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.expand import Setup
from stages.contracts.history import GATE_METRICS, METRICS


def logged_by_all(sides: Iterable[Setup]) -> list[str]:
    """Metrics that every one of the setups logs."""
    setups = list(sides)
    gates = [{use.card.name for use in setup.reward.gates} for setup in setups]
    shared = sorted(set.intersection(*gates)) if gates else []
    without = {"kl"} if any(setup.train.beta == 0 for setup in setups) else set()
    return [name for name in METRICS if name not in without] + [f"gate.{gate}.{measure}" for gate in shared for measure in GATE_METRICS]


def logged_by_any(setups: Iterable[Setup]) -> list[str]:
    """Metrics that at least one of the setups logs."""
    found: dict[str, None] = {}
    seen: set[tuple[tuple[str, ...], bool]] = set()
    for setup in setups:
        key = (tuple(use.card.name for use in setup.reward.gates), setup.train.beta == 0)
        if key not in seen:
            seen.add(key)
            found |= dict.fromkeys(logged_by_all([setup]))
    return list(found)
