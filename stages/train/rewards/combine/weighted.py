"""weighted: every gate that is reached judges; the reward is the sum of weight times score, and None when a needed gate is unknown."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stages.contracts.plugin import Answer, Judgement, reads
from stages.contracts.reward_card import PhaseCard
from stages.train.rewards.combine.gate import Combined, Gate, told, unknown

UPSTREAM = "a gate that this one needs is unknown"
T = TypeVar("T")


def combined(gates: Sequence[Gate], weights: Mapping[str, float], answers: Sequence[Answer]) -> Combined:
    """Score every answer. A gate whose `needs` did not pass is not reached and counts 0.

    Gates that neither need nor read one another judge at the same time where they wait for processes or servers of their own.
    """
    judgements: dict[str, list[Judgement | None]] = {}
    seconds: dict[str, float] = {}

    def judge(place: int) -> tuple[list[Judgement | None], float]:
        gate = gates[place]
        before = judgements[gate.card.needs] if gate.card.needs else None
        reached = [index for index in range(len(answers)) if before is None or _passed(before[index])]
        began = time.perf_counter()
        heard = told(gate, gates[:place], judgements, answers)
        found = gate.judge([heard[index] for index in reached]) if reached else []
        took = time.perf_counter() - began
        said: list[Judgement | None] = [None] * len(answers)
        for index, judgement in zip(reached, found, strict=True):
            said[index] = judgement
        return said, took

    for wave in waves(gates):
        for place, (said, took) in zip(wave, _at_once(judge, wave, gates), strict=True):
            judgements[gates[place].card.name], seconds[gates[place].card.name] = said, took
    judgements = {gate.card.name: judgements[gate.card.name] for gate in gates}
    needed = _needed(gates, weights)
    rewards = [_reward({name: said[index] for name, said in judgements.items()}, weights, needed) for index in range(len(answers))]
    return Combined(rewards, judgements, {gate.card.name: seconds[gate.card.name] for gate in gates})


def waves(gates: Sequence[Gate]) -> list[list[int]]:
    """Places of the gates, in groups: each gate needs and reads gates of earlier groups only."""
    depths: list[int] = []
    for place, gate in enumerate(gates):
        kinds = reads(gate.card.kind)
        above = [depths[at] for at, one in enumerate(gates[:place]) if one.card.name == gate.card.needs or one.card.kind in kinds]
        depths.append(1 + max(above, default=-1))
    return [[place for place, depth in enumerate(depths) if depth == number] for number in range(max(depths, default=-1) + 1)]


def _at_once(judge: Callable[[int], T], wave: Sequence[int], gates: Sequence[Gate]) -> list[T]:
    """What `judge` gives for each place, in order. Gates that wait run in threads of their own, all others here, one after the other."""
    apart = [place for place in wave if getattr(gates[place].plugin, "WAITS", False)]
    if len(wave) < 2 or not apart:
        return [judge(place) for place in wave]
    with ThreadPoolExecutor(len(apart), "octavo-gate") as threads:
        begun = {place: threads.submit(judge, place) for place in apart}
        here = {place: judge(place) for place in wave if place not in begun}
        return [here[place] if place in here else begun[place].result() for place in wave]


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
