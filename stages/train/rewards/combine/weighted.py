"""weighted: every gate that is reached judges; the reward is the sum of weight times score, and None when a needed gate is unknown."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from stages.contracts.plugin import Answer, Judgement
from stages.contracts.reward_card import PhaseCard
from stages.train.rewards.combine.gate import Combined, Gate, told, unknown

UPSTREAM = "a gate that this one needs is unknown"


def combined(gates: Sequence[Gate], weights: Mapping[str, float], answers: Sequence[Answer]) -> Combined:
    """Score every answer. A gate whose `needs` did not pass is not reached and counts 0."""
    judgements: dict[str, list[Judgement | None]] = {}
    seconds: dict[str, float] = {}
    for place, gate in enumerate(gates):
        before = judgements[gate.card.needs] if gate.card.needs else None
        reached = [index for index in range(len(answers)) if before is None or _passed(before[index])]
        began = time.perf_counter()
        heard = told(gate, gates[:place], judgements, answers)
        found = gate.judge([heard[index] for index in reached]) if reached else []
        seconds[gate.card.name] = time.perf_counter() - began
        said: list[Judgement | None] = [None] * len(answers)
        for index, judgement in zip(reached, found, strict=True):
            said[index] = judgement
        judgements[gate.card.name] = said
    needed = _needed(gates, weights)
    rewards = [_reward({name: said[index] for name, said in judgements.items()}, weights, needed) for index in range(len(answers))]
    return Combined(rewards, judgements, seconds)


def phase_weights(gates: Sequence[Gate], curriculum: Sequence[PhaseCard], progress: float) -> dict[str, float]:
    """Weights at this share of training: those of the latest phase that has begun, else the gates' own."""
    weights = {gate.card.name: gate.card.weight or 0.0 for gate in gates}
    for phase in curriculum:
        if phase.from_share <= progress:
            weights = dict(phase.weights)
    return weights


def with_upstream(gates: Sequence[Gate], said: Mapping[str, Judgement | None]) -> dict[str, Judgement | None]:
    """One answer's judgements, where a gate that was not reached because a gate it needs was unknown is itself unknown."""
    told: dict[str, Judgement | None] = {}
    for gate in gates:
        judgement = said[gate.card.name]
        above = told[gate.card.needs] if gate.card.needs else None
        told[gate.card.name] = unknown(UPSTREAM) if judgement is None and above and above.status == "unknown" else judgement
    return told


def _passed(judgement: Judgement | None) -> bool:
    return judgement is not None and judgement.status == "pass"


def _needed(gates: Sequence[Gate], weights: Mapping[str, float]) -> set[str]:
    """Gates that the reward rests on: those of positive weight and, through `needs`, those before them."""
    needed: set[str] = set()
    for gate in reversed(gates):
        if weights[gate.card.name] > 0 or gate.card.name in needed:
            needed |= {gate.card.name, *([gate.card.needs] if gate.card.needs else [])}
    return needed


def _reward(said: Mapping[str, Judgement | None], weights: Mapping[str, float], needed: set[str]) -> float | None:
    terms = []
    for name, judgement in said.items():
        if judgement is None:
            continue
        if judgement.score is not None:
            terms.append(weights[name] * judgement.score)
        elif name in needed:
            return None
    return min(1.0, math.fsum(terms))  # weights sum to 1 only to within rounding
