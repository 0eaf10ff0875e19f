"""One reward from gates in order. Three values all the way: a gate that does not know makes the reward None, never a number.

The trainer calls `Composed.score` inside its step, where an exception kills the training, Inf silences a whole group and a wrong
length is an error. So whatever a gate does, `score` returns one finite number or None for each answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stages.contracts.plugin import GATES, Answer, Judgement, load
from stages.contracts.reward_card import GateCard, RewardCard

REASON_CHARS = 300
TOLERANCE = 1e-9
"""An example's reward may differ from what its author expects by this much."""
NO_SANDBOX = "none needed"


@dataclass(frozen=True)
class Scored:
    """Rewards of a batch, one an answer; per gate: what it said (None = not reached) and the wall seconds it took."""

    rewards: list[float | None]
    judgements: dict[str, list[Judgement | None]]
    seconds: dict[str, float]


@dataclass(frozen=True)
class ExampleOutcome:
    """What the author of a reward expected of a completion, and what it got (None = unknown)."""

    completion: str
    expect: float
    got: float | None
    why: str
    ok: bool


@dataclass(frozen=True)
class Gate:
    """A gate ready to judge."""

    card: GateCard
    plugin: Any
    settings: Any

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        """One judgement an answer, whatever the plug-in does: an exception or a wrong length is unknown for the whole batch."""
        try:
            found = list(self.plugin.judge(self.settings, answers))
        except Exception as error:
            return [_unknown(f"the gate broke: {type(error).__name__}: {error}")] * len(answers)
        if len(found) != len(answers):
            return [_unknown(f"the gate gave {len(found)} judgements for {len(answers)} completions")] * len(answers)
        return [_checked(one) for one in found]

    def decides(self, judgement: Judgement, last: bool) -> tuple[bool, float | None]:
        """Whether this gate ends the way, and the reward then."""
        if judgement.status == "unknown":
            return True, None
        declared = self.card.on_pass if judgement.status == "pass" else self.card.on_fail
        if declared is not None:
            return True, declared
        return last, judgement.score if last else None


class Composed:
    """A reward as one function. Build it with `compose`."""

    def __init__(self, name: str, gates: tuple[Gate, ...], invert: bool) -> None:
        self.name, self.gates, self.invert = name, gates, invert

    def score(self, answers: Sequence[Answer]) -> Scored:
        """Send each answer through the gates until one decides. Never raises; rewards are finite or None."""
        rewards: list[float | None] = [None] * len(answers)
        judgements: dict[str, list[Judgement | None]] = {}
        seconds: dict[str, float] = {}
        waiting = list(range(len(answers)))
        for gate in self.gates:
            began = time.perf_counter()
            found = gate.judge([answers[index] for index in waiting]) if waiting else []
            seconds[gate.card.name] = time.perf_counter() - began
            said: list[Judgement | None] = [None] * len(answers)
            onward = []
            for index, judgement in zip(waiting, found, strict=True):
                said[index] = judgement
                decided, reward = gate.decides(judgement, last=gate is self.gates[-1])
                if decided:
                    rewards[index] = self._turned(reward)
                else:
                    onward.append(index)
            judgements[gate.card.name] = said
            waiting = onward
        return Scored(rewards, judgements, seconds)

    def _turned(self, reward: float | None) -> float | None:
        return reward if reward is None or not self.invert else 1.0 - reward


def compose(reward: RewardCard) -> Composed:
    """Build a reward from its card. Raises ValueError for settings or rewards that no compiler writes."""
    names = [gate.name for gate in reward.gates]
    if len(set(names)) != len(names):
        raise ValueError(f"reward {reward.name!r} has two gates of one name: {names}")
    return Composed(reward.name, tuple(_gate(card) for card in reward.gates), reward.invert)


def score_each(gates: Sequence[GateCard], answers: Sequence[Answer]) -> tuple[dict[str, list[Judgement]], dict[str, float]]:
    """Every gate judges every answer by itself: (judgements, wall seconds) by gate name. For the shared evaluation."""
    judgements: dict[str, list[Judgement]] = {}
    seconds: dict[str, float] = {}
    for card in gates:
        gate = _gate(card)
        began = time.perf_counter()
        judgements[card.name] = gate.judge(answers)
        seconds[card.name] = time.perf_counter() - began
    return judgements, seconds


def check_examples(reward: RewardCard) -> list[ExampleOutcome]:
    """Score the author's examples. They belong to the named reward, so an inversion is left out."""
    composed = compose(reward.model_copy(update={"invert": False}))
    answers = [Answer(example.completion, example.row, key=f"example-{index}") for index, example in enumerate(reward.examples)]
    scored = composed.score(answers)
    outcomes = []
    for index, example in enumerate(reward.examples):
        got = scored.rewards[index]
        ok = got is not None and abs(got - example.expect) <= TOLERANCE
        outcomes.append(ExampleOutcome(example.completion, example.expect, got, _way(scored, index), ok))
    return outcomes


def sandbox(gates: Iterable[GateCard]) -> str:
    """Tier of the sandbox that these gates run model code in, or `none needed`. Raises VerifierUnavailable when no tier holds."""
    tiers = {plugin.tier() for plugin in (load(GATES, card.kind) for card in gates) if hasattr(plugin, "tier")}
    return ", ".join(sorted(tiers)) or NO_SANDBOX


def _gate(card: GateCard) -> Gate:
    for value in (card.on_pass, card.on_fail):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"gate {card.name!r} declares the reward {value}, which is no finite number")
    plugin = load(GATES, card.kind)
    return Gate(card, plugin, plugin.Settings.model_validate(card.settings))


def _unknown(reason: str) -> Judgement:
    return Judgement("unknown", None, reason.encode("utf-8", "backslashreplace").decode()[:REASON_CHARS])


def _checked(judgement: Any) -> Judgement:
    if not isinstance(judgement, Judgement):
        return _unknown(f"the gate gave {type(judgement).__name__} instead of a judgement")
    score = judgement.score
    if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
        return _unknown(f"the gate gave the score {score}, which is not in 0..1")
    return judgement


def _way(scored: Scored, index: int) -> str:
    """The gates an answer went through: `format: pass; tests: fail (2 of 6 tests passed)`."""
    steps = []
    for name, said in scored.judgements.items():
        judgement = said[index]
        if judgement is not None:
            steps.append(f"{name}: {judgement.status}" + (f" ({judgement.reason})" if judgement.reason else ""))
    return "; ".join(steps)
