"""first_decides: each answer goes through the gates in order until one decides. A gate that does not know ends the way with None."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stages.contracts.plugin import Answer, Judgement
from stages.train.rewards.combine.gate import Combined, Gate, told


def combined(gates: Sequence[Gate], answers: Sequence[Answer]) -> Combined:
    """Send each answer through the gates until one decides."""
    rewards: list[float | None] = [None] * len(answers)
    judgements: dict[str, list[Judgement | None]] = {}
    seconds: dict[str, float] = {}
    waiting = list(range(len(answers)))
    for place, gate in enumerate(gates):
        began = time.perf_counter()
        heard = told(gate, gates[:place], judgements, answers)
        found = gate.judge([heard[index] for index in waiting]) if waiting else []
        seconds[gate.card.name] = time.perf_counter() - began
        said: list[Judgement | None] = [None] * len(answers)
        onward = []
        for index, judgement in zip(waiting, found, strict=True):
            said[index] = judgement
            decided, rewards[index] = _decides(gate, judgement, last=gate is gates[-1])
            if not decided:
                onward.append(index)
        judgements[gate.card.name] = said
        waiting = onward
    return Combined(rewards, judgements, seconds)


def _decides(gate: Gate, judgement: Judgement, last: bool) -> tuple[bool, float | None]:
    """Whether this gate ends the way, and the reward then."""
    if judgement.status == "unknown":
        return True, None
    declared = gate.card.on_pass if judgement.status == "pass" else gate.card.on_fail
    if declared is not None:
        return True, declared
    return last, judgement.score if last else None
