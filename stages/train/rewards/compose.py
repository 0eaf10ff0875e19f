"""One reward from gates. Three values all the way: a gate that does not know makes the reward None, never a number.

The trainer calls `Composed.score` inside its step, where an exception kills the training, Inf silences a whole group and a wrong
length is an error. So whatever a gate does, `score` returns one finite number or None for each answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stages.contracts.plugin import GATES, Answer, Judgement, load
from stages.contracts.reward import Gate, Phase, Reward
from stages.train.rewards.combine.gate import ReadyGate, ready, unknown
from stages.train.rewards.combine.penalties import penalised

TOLERANCE = 1e-9
"""An example's reward may differ from what its author expects by this much."""
NO_SANDBOX = "none needed"
UPSTREAM = "a gate that this one needs is unknown"


@dataclass(frozen=True)
class Scored:
    """Rewards of a batch, one an answer; per gate: what it said (None = not reached) and the wall seconds it took."""

    rewards: list[float | None]
    judgements: dict[str, list[Judgement | None]]
    seconds: dict[str, float]
    penalties: dict[str, list[bool | None]] = field(default_factory=dict)
    """Per penalty: whether it held (None = it hangs on a gate that does not know)."""


@dataclass(frozen=True)
class ExampleOutcome:
    """What the author of a reward expected of a completion, and what it got (None = unknown)."""

    completion: str
    expect: float
    got: float | None
    why: str
    ok: bool


class Composed:
    """A reward as one function. Build it with `compose`."""

    def __init__(self, card: Reward, gates: tuple[ReadyGate, ...]) -> None:
        self.card, self.name, self.gates = card, card.name, gates

    def score(self, answers: Sequence[Answer], progress: float = 0.0) -> Scored:
        """Score each answer. `progress`: share of training already done, 0..1, for the curriculum. Never raises for an answer."""
        card = self.card
        scored = self._weighted(answers, progress) if card.combine == "weighted" else self._first_decides(answers)
        held: dict[str, list[bool | None]] = {penalty.name: [] for penalty in card.penalties}
        rewards: list[float | None] = []
        for index, answer in enumerate(answers):
            reward = scored.rewards[index]
            if card.penalties:
                verdicts = _with_upstream(card.gates, {name: column[index] for name, column in scored.judgements.items()})
                reward, which = penalised(reward, card.penalties, answer, verdicts)
                for penalty, holds in zip(card.penalties, which, strict=True):
                    held[penalty.name].append(holds)
            rewards.append(self._finished(reward))
        return Scored(rewards, scored.judgements, scored.seconds, held)

    def _first_decides(self, answers: Sequence[Answer]) -> Scored:
        """Each answer goes through the gates in order until one decides. A gate that does not know ends the way with None."""
        scored = Scored([None] * len(answers), {}, {})
        waiting = list(range(len(answers)))
        for gate in self.gates:
            self._judge(gate, waiting, answers, scored)
            onward = []
            for index in waiting:
                judgement = scored.judgements[gate.card.name][index]
                assert judgement is not None
                if judgement.status == "unknown":
                    continue
                declared = gate.card.on_pass if judgement.status == "pass" else gate.card.on_fail
                last = gate is self.gates[-1]
                if declared is not None or last:
                    scored.rewards[index] = judgement.score if declared is None else declared
                else:
                    onward.append(index)
            waiting = onward
        return scored

    def _weighted(self, answers: Sequence[Answer], progress: float) -> Scored:
        """Every gate judges that is reached: one whose `needs` did not pass is not."""
        scored = Scored([None] * len(answers), {}, {})
        for gate in self.gates:
            before = scored.judgements[gate.card.needs] if gate.card.needs else None
            reached = [index for index in range(len(answers)) if before is None or _passed(before[index])]
            self._judge(gate, reached, answers, scored)
        weights = _phase_weights(self.card.gates, self.card.curriculum, progress)
        rests_on = _needed(self.card.gates, weights)
        for index in range(len(answers)):
            verdicts = {name: column[index] for name, column in scored.judgements.items()}
            scored.rewards[index] = _weighted_sum(verdicts, weights, rests_on)
        return scored

    def _judge(self, gate: ReadyGate, reached: Sequence[int], answers: Sequence[Answer], scored: Scored) -> None:
        """Let a gate judge the answers that reach it, and write down what it says and how long it takes."""
        began = time.perf_counter()
        informed = gate.informed(answers, self.gates[: self.gates.index(gate)], scored.judgements)
        judgements = gate.judge([informed[index] for index in reached]) if reached else []
        column: list[Judgement | None] = [None] * len(answers)
        for index, judgement in zip(reached, judgements, strict=True):
            column[index] = judgement
        scored.judgements[gate.card.name] = column
        scored.seconds[gate.card.name] = time.perf_counter() - began

    def _finished(self, reward: float | None) -> float | None:
        if reward is None:
            return None
        if self.card.cap is not None:
            reward = min(reward, self.card.cap)
        if self.card.invert:
            reward = 1.0 - reward
        scale = self.card.scale
        return reward if scale is None else scale.low + reward * (scale.high - scale.low)


def _passed(judgement: Judgement | None) -> bool:
    return judgement is not None and judgement.status == "pass"


def _phase_weights(gates: Sequence[Gate], curriculum: Sequence[Phase], progress: float) -> dict[str, float]:
    """Weights at this share of training: those of the latest phase that has begun, else the gates' own."""
    weights = {gate.name: gate.weight or 0.0 for gate in gates}
    for phase in curriculum:
        if phase.begins <= progress:
            weights = dict(phase.weights)
    return weights


def _with_upstream(gates: Sequence[Gate], judgements: Mapping[str, Judgement | None]) -> dict[str, Judgement | None]:
    """One answer's judgements, where a gate that was not reached because a gate it needs was unknown is itself unknown."""
    filled: dict[str, Judgement | None] = {}
    for gate in gates:
        judgement = judgements[gate.name]
        above = filled[gate.needs] if gate.needs else None
        filled[gate.name] = unknown(UPSTREAM) if judgement is None and above and above.status == "unknown" else judgement
    return filled


def _needed(gates: Sequence[Gate], weights: Mapping[str, float]) -> set[str]:
    """Gates that the reward rests on: those of positive weight and, through `needs`, those before them."""
    names: set[str] = set()
    for gate in reversed(gates):
        if weights[gate.name] > 0 or gate.name in names:
            names |= {gate.name, *([gate.needs] if gate.needs else [])}
    return names


def _weighted_sum(judgements: Mapping[str, Judgement | None], weights: Mapping[str, float], rests_on: set[str]) -> float | None:
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


def compose(reward: Reward) -> Composed:
    """Build a reward from its card, which the compiler has checked. Raises KeyError for an unknown kind of gate."""
    return Composed(reward, tuple(ready(card) for card in reward.gates))


def score_each(gates: Sequence[Gate], answers: Sequence[Answer]) -> tuple[dict[str, list[Judgement]], dict[str, float]]:
    """Every gate judges every answer by itself: (judgements, wall seconds) by gate name. For the shared evaluation."""
    judgements: dict[str, list[Judgement]] = {}
    seconds: dict[str, float] = {}
    before: list[ReadyGate] = []
    for card in gates:
        gate = ready(card)
        began = time.perf_counter()
        judgements[card.name] = gate.judge(gate.informed(answers, before, judgements))
        before.append(gate)
        seconds[card.name] = time.perf_counter() - began
    return judgements, seconds


def check_examples(reward: Reward) -> list[ExampleOutcome]:
    """Score the author's examples. They belong to the named reward, so an inversion is left out."""
    composed = compose(reward.model_copy(update={"invert": False}))
    answers = [
        Answer(example.completion, example.row, truncated=example.truncated, key=f"example-{index}", tokens=example.tokens)
        for index, example in enumerate(reward.examples)
    ]
    scored = composed.score(answers)
    outcomes = []
    for index, example in enumerate(reward.examples):
        got = scored.rewards[index]
        ok = got is not None and abs(got - example.expect) <= TOLERANCE
        outcomes.append(ExampleOutcome(example.completion, example.expect, got, _way(scored, index), ok))
    return outcomes


def sandbox(gates: Iterable[Gate]) -> str:
    """Tier of the sandbox that these gates run model code in, or `none needed`. Raises VerifierUnavailable when no tier holds."""
    tiers = set()
    for card in gates:
        plugin = load(GATES, card.kind)
        if hasattr(plugin, "tier"):
            tiers.add(plugin.tier())
        if hasattr(plugin, "require"):
            plugin.require(plugin.Settings.model_validate(card.settings))
    return ", ".join(sorted(tiers)) or NO_SANDBOX


def _way(scored: Scored, index: int) -> str:
    """The gates an answer went through, and its penalties: `format: pass; tests: fail (2 of 6 tests passed); penalty runaway`."""
    steps = []
    for name, column in scored.judgements.items():
        judgement = column[index]
        if judgement is not None:
            steps.append(f"{name}: {judgement.status}" + (f" ({judgement.reason})" if judgement.reason else ""))
    steps += [f"penalty {name}" for name, held in scored.penalties.items() if held[index]]
    return "; ".join(steps)
