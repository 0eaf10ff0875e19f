"""weighted: the reward is the sum of weight times score, and None when a gate that it rests on is unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stages.contracts.plugin import Judgement
from stages.contracts.reward import Gate, Phase
from stages.train.rewards.combine.gate import unknown

UPSTREAM = "a gate that this one needs is unknown"


def phase_weights(gates: Sequence[Gate], curriculum: Sequence[Phase], progress: float) -> dict[str, float]:
    """Weights at this share of training: those of the latest phase that has begun, else the gates' own."""
    weights = {gate.name: gate.weight or 0.0 for gate in gates}
    for phase in curriculum:
        if phase.begins <= progress:
            weights = dict(phase.weights)
    return weights


def with_upstream(gates: Sequence[Gate], judgements: Mapping[str, Judgement | None]) -> dict[str, Judgement | None]:
    """One answer's judgements, where a gate that was not reached because a gate it needs was unknown is itself unknown."""
    filled: dict[str, Judgement | None] = {}
    for gate in gates:
        judgement = judgements[gate.name]
        above = filled[gate.needs] if gate.needs else None
        filled[gate.name] = unknown(UPSTREAM) if judgement is None and above and above.status == "unknown" else judgement
    return filled


def needed(gates: Sequence[Gate], weights: Mapping[str, float]) -> set[str]:
    """Gates that the reward rests on: those of positive weight and, through `needs`, those before them."""
    names: set[str] = set()
    for gate in reversed(gates):
        if weights[gate.name] > 0 or gate.name in names:
            names |= {gate.name, *([gate.needs] if gate.needs else [])}
    return names


def weighted_sum(judgements: Mapping[str, Judgement | None], weights: Mapping[str, float], rests_on: set[str]) -> float | None:
    """One answer's reward. A gate that was not reached counts 0."""
    terms = []
    for name, judgement in judgements.items():
        if judgement is None:
            continue
        if judgement.score is not None:
            terms.append(weights[name] * judgement.score)
        elif name in rests_on:
            return None
    return min(1.0, math.fsum(terms))  # weights sum to 1 only to within rounding
