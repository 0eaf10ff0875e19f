"""Degenerate answers: texts that take no skill, scored to see whether one of them is a reward's best answer.

A policy finds such an optimum and then writes nothing else. An author who means it says so with an example of that text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stages.contracts.plugin import Answer
from stages.contracts.preflight_card import ProbeReward
from stages.contracts.reward import Reward
from stages.train.rewards.compose import compose

REFUSED = ("empty", "end marker only", "required parts only")
"""No task has these as its answer. One word may be one, and a word over and over too: those two only warn."""
ROWS = 3
"""Data rows that each text is scored on: one row's answer may happen to be `x`."""
TOLERANCE = 1e-9


def texts(reward: Reward) -> dict[str, str]:
    """What is tried: nothing, one word, one word over and over, and what the gates' settings ask for without anything else."""
    tried = {"empty": "", "one word": "x", "repeated": "x " * 200}
    for gate in reward.gates:
        marker, required = gate.settings.get("end_marker"), gate.settings.get("required")
        if isinstance(marker, str) and marker:
            tried["end marker only"] = marker
        if isinstance(required, list | tuple) and required and all(isinstance(part, str) for part in required):
            tried["required parts only"] = "\n".join(required)
    return tried


def highest(reward: Reward) -> float:
    """What the best answer earns: the highest reward of the examples, else the most that the reward can pay."""
    if reward.examples:
        return max(example.expect for example in reward.examples)
    most = 1.0 if reward.cap is None else reward.cap
    return most if reward.scale is None else reward.scale.low + most * (reward.scale.high - reward.scale.low)


def is_declared(reward: Reward, probe: ProbeReward) -> bool:
    """Whether an example says what the text earns, so that its author knows."""
    return probe.text.strip() in {example.completion.strip() for example in reward.examples}


def probes(reward: Reward, rows: Sequence[Mapping[str, Any]]) -> list[ProbeReward]:
    """Score all texts on the first rows, before any inversion. Never raises for a gate that fails."""
    composed = compose(reward.model_copy(update={"invert": False}))
    top, bottom = highest(reward), 0.0 if reward.scale is None else reward.scale.low
    probed = []
    for name, text in texts(reward).items():
        words = len(text.split())  # and about as many tokens
        answers = [Answer(text, row, key=f"probe-{name}-{place}", tokens=words) for place, row in enumerate(rows[:ROWS])]
        rewards = composed.score(answers).rewards
        known = [earned for earned in rewards if earned is not None]
        least = min(known) if known and len(known) == len(rewards) else None
        is_best = least is not None and least >= top - TOLERANCE and least > bottom + TOLERANCE
        probed.append(ProbeReward(name=name, text=text, reward=least, best=is_best))
    return probed
