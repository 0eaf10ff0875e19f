"""Why preflight refuses or warns: one function a question, each with the numbers and with what to change.

Degenerate answers are texts that take no skill, scored to see whether one of them is a reward's best answer. A policy finds such an optimum
and then writes nothing else. An author who means it says so with an example of that text.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.contracts.files import load_table
from stages.contracts.plugin import Answer
from stages.contracts.preflight_card import Atom, PreflightCard, PreflightCondition, ProbeReward, StepTime
from stages.contracts.reward import Reward
from stages.contracts.wilson import wilson
from stages.train.rewards.compose import check_examples, compose

_SENTENCES: dict[str, str] = load_table(Path(__file__).with_suffix(".yaml"))
REFUSED = ("empty", "end marker only", "required parts only")
"""No task has these as its answer. One word may be one, and a word over and over too: those two only warn."""
ROWS = 3
"""Data rows that each text is scored on: one row's answer may happen to be `x`."""
TOLERANCE = 1e-9
ATOM_SHARE = 0.4
"""Share of completions on one reward value, neither the lowest nor the highest possible, from which preflight warns."""
SHORTEST = 0.1
"""Share of completions that count as the shortest."""
FEWEST = 5
"""Fewest completions in that share."""
PAYS = 0.25
"""By how much of the range of rewards the shortest must be ahead of the rest for a warning."""
STARVING_SECONDS = 1.0
"""Scoring that takes less than this in a step is no reason to warn."""


def texts(reward: Reward) -> dict[str, str]:
    """What is tried: nothing, one word, one word over and over, and what the gates' settings ask for without anything else; each marked
    as an answer, where the reward says how answers are."""
    tried = {"empty": "", "one word": "x", "repeated": "x " * 200}
    for gate in reward.gates:
        marker, required = gate.settings.get("end_marker"), gate.settings.get("required")
        if isinstance(marker, str) and marker:
            tried["end marker only"] = marker
        if isinstance(required, list | tuple) and required and all(isinstance(part, str) for part in required):
            tried["required parts only"] = "\n".join(required)
    return tried if reward.answer is None else {name: reward.answer.marked(text) for name, text in tried.items()}


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


def examples(reward: Reward) -> list[str]:
    """Examples whose reward is not the expected one."""
    sentences = []
    for wrong in (outcome for outcome in check_examples(reward) if not outcome.ok):
        scored = "is unknown" if wrong.got is None else f"scores {wrong.got:g}"
        why = wrong.why.rstrip(".")
        sentences.append(_SENTENCES["example"].format(completion=wrong.completion, scored=scored, expect=wrong.expect, why=why))
    return sentences


def bounds(card: PreflightCard, condition: PreflightCondition, counts: Mapping[str, int]) -> list[str]:
    """Shares above their limits, those of the spec or octavo's own."""
    completions, tokens, unknown = counts["completions"], condition.max_completion_length, condition.reward.unknown.limit
    checks = (
        ("silent", counts["zero_signal_groups"], counts["groups"], card.zero_signal_share.below, operator.ge),
        ("cut", counts["truncated"], completions, card.truncated.below, operator.ge),
        ("unknown", counts["unknown"], completions, unknown, operator.gt),
    )
    sentences = []
    for name, count, total, limit, is_beyond in checks:
        if total and is_beyond(count / total, limit):
            low, high = wilson(count, total, 0.95)
            facts = {"count": count, "total": total, "share": count / total, "low": low, "high": high, "limit": limit, "tokens": tokens}
            sentences.append(_SENTENCES[name].format(**facts))
    return sentences


def constant(known: Sequence[float]) -> list[str]:
    """One completion a prompt, and all of them earn the same: without groups this is what no signal looks like."""
    is_constant = len(known) > 1 and len(set(known)) == 1
    return [_SENTENCES["constant"].format(count=len(known), reward=known[0])] if is_constant else []


def atoms(values: Sequence[Atom], known: Sequence[float]) -> list[str]:
    """Many completions on one reward between the lowest and the highest."""
    return [
        _SENTENCES["atom"].format(count=atom.completions, total=len(known), reward=atom.reward)
        for atom in values
        if atom.reward not in (0.0, 1.0) and atom.completions >= ATOM_SHARE * len(known)
    ]


def optima(reward: Reward, probed: Sequence[ProbeReward], refused: bool) -> list[str]:
    """The first text without skill that no right answer beats. `refused`: one without any content that no example declares; else one that
    an example declares, or that might be an answer."""
    for probe in probed:
        declared = is_declared(reward, probe)
        if probe.best and refused == (probe.name in REFUSED and not declared):
            text = json.dumps(probe.text if len(probe.text) <= 24 else f"{probe.text[:24]}...", ensure_ascii=False)
            advice = "an example says so, and training will find it." if declared else "add a gate that fails it."
            facts = {"text": text, "name": probe.name, "reward": probe.reward, "highest": highest(reward), "advice": advice}
            return [_SENTENCES["optimum"].format(**facts)]
    return []


def shorter_pays(earned: Sequence[tuple[int, float | None]]) -> list[str]:
    """Whether the shortest completions earn clearly more than the rest. `earned`: (tokens, reward) of each completion."""
    known = sorted((tokens, reward) for tokens, reward in earned if reward is not None)
    few = max(FEWEST, round(SHORTEST * len(known)))
    if len(known) < 4 * few or known[0][0] == known[-1][0]:
        return []
    rewards = [reward for _, reward in known]
    short, rest = sum(rewards[:few]) / few, sum(rewards[few:]) / len(rewards[few:])
    if short - rest < PAYS * (max(rewards) - min(rewards)) or max(rewards) == min(rewards):
        return []
    return [_SENTENCES["shorter"].format(few=few, total=len(known), longest=known[few - 1][0], short=short, rest=rest)]


def starvation(step: StepTime | None) -> list[str]:
    """Whether training will wait for the verifiers more than it samples."""
    if step is None or step.scoring <= max(step.sampling, STARVING_SECONDS):
        return []
    return [_SENTENCES["starving"].format(**step.model_dump(), share=step.scoring / (step.scoring + step.sampling))]
