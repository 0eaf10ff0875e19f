"""One reward from gates. Three values all the way: a gate that does not know makes the reward None, never a number.

The trainer calls `Composed.score` inside its step, where an exception kills the training, Inf silences a whole group and a wrong
length is an error. So whatever a gate does, `score` returns one finite number or None for each answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stages.contracts.answer import AnswerRule, Taken, take
from stages.contracts.expressions import Expression, Leaf, Mark, Signal, Status, truth
from stages.contracts.plugin import GATES, Answer, Judgement, declared, load
from stages.contracts.reward import Gate, Reward

TOLERANCE = 1e-9
"""An example's reward may differ from what its author expects by this much."""
NO_SANDBOX = "none needed"
REASON_CHARS = 300


@dataclass(frozen=True)
class ReadyGate:
    """A card with its plug-in and its settings."""

    card: Gate
    plugin: Any
    settings: Any

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        """One judgement an answer, whatever the plug-in does: an exception or a wrong length is unknown for the whole batch. Where
        verifiers run model code, an exception may be theirs; elsewhere it is the reward's."""
        try:
            judgements = list(self.plugin.judge(self.settings, answers))
        except Exception as error:
            reason = f"the gate broke: {type(error).__name__}: {error}"
            return [_unknown(reason, broken=not hasattr(self.plugin, "tier"))] * len(answers)
        if len(judgements) != len(answers):
            return [_unknown(f"the gate gave {len(judgements)} judgements for {len(answers)} completions", broken=True)] * len(answers)
        return [_checked(judgement) for judgement in judgements]


def _checked(judgement: Any) -> Judgement:
    if not isinstance(judgement, Judgement):
        return _unknown(f"the gate gave {type(judgement).__name__} instead of a judgement", broken=True)
    score, marks = judgement.score, judgement.marks
    if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
        return _unknown(f"the gate gave the score {score}, which is not in 0..1", broken=True)
    if not isinstance(marks, Mapping) or not all(isinstance(name, str) and isinstance(mark, bool) for name, mark in marks.items()):
        return _unknown("the gate gave marks that are neither true nor false", broken=True)
    return judgement


def _unknown(reason: str, broken: bool = False) -> Judgement:
    """A judgement that knows nothing, for a reason in valid UTF-8."""
    return Judgement("unknown", None, reason.encode("utf-8", "backslashreplace").decode()[:REASON_CHARS], broken=broken)


@dataclass(frozen=True)
class Scored:
    """Rewards of a batch, one an answer; per gate: what it said (None = not reached) and the wall seconds it took."""

    rewards: list[float | None]
    judgements: dict[str, list[Judgement | None]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    penalties: dict[str, list[bool | None]] = field(default_factory=dict)
    """Per penalty: whether it held (None = it hangs on a gate that does not know)."""
    taken: list[Taken] | None = None
    """The answers inside the completions; None where a completion is the answer."""

    def of_answer(self, index: int) -> dict[str, Judgement | None]:
        """What each gate says of one answer."""
        return {name: column[index] for name, column in self.judgements.items()}

    def answer(self, index: int, completion: Answer) -> Answer:
        """A completion with the text of its answer alone; without any text where it has none."""
        return completion if self.taken is None else replace(completion, text=self.taken[index].text or "")


class Composed:
    """A reward as one function. Build it with `compose`."""

    def __init__(self, card: Reward, gates: tuple[ReadyGate, ...]) -> None:
        self.card, self.name, self.gates = card, card.name, gates

    def score(self, answers: Sequence[Answer], progress: float = 0.0) -> Scored:
        """Score each answer. `progress`: share of training already done, 0..1, for the curriculum. Never raises for an answer."""
        penalties: dict[str, list[bool | None]] = {penalty.name: [] for penalty in self.card.penalties}
        scored = Scored([None] * len(answers), penalties=penalties, taken=_taken(self.card.answer, answers))
        if self.card.combine == "weighted":
            self._weighted(answers, progress, scored)
        else:
            self._first_decides(answers, scored)
        for index, answer in enumerate(answers):
            judgements = self._with_upstream(scored.of_answer(index)) if self.card.penalties else {}
            reward = scored.rewards[index]
            for penalty in self.card.penalties:
                held = holds(penalty.when, scored.answer(index, answer), judgements)
                scored.penalties[penalty.name].append(held)
                if reward is None or held is None:
                    reward = None
                elif held:
                    reward = penalty.set if penalty.set is not None else reward * (penalty.factor or 0.0)
            scored.rewards[index] = None if reward is None else self._finished(reward)
        return scored

    def _first_decides(self, answers: Sequence[Answer], scored: Scored) -> None:
        """Each answer goes through the gates in order until one decides. An unknown gate makes the reward None."""
        waiting = list(range(len(answers)))
        for place, gate in enumerate(self.gates):
            onward = []
            for index, judgement in zip(waiting, _judge(self.gates, place, waiting, answers, scored), strict=True):
                declared = gate.card.on_pass if judgement.status == "pass" else gate.card.on_fail
                if judgement.status == "unknown":
                    continue
                if declared is not None or gate is self.gates[-1]:
                    scored.rewards[index] = judgement.score if declared is None else declared
                else:
                    onward.append(index)
            waiting = onward

    def _weighted(self, answers: Sequence[Answer], progress: float, scored: Scored) -> None:
        """Every gate judges that is reached: one whose `needs` did not pass is not. A gate that was not reached counts 0."""
        for place, gate in enumerate(self.gates):
            before = scored.judgements[gate.card.needs] if gate.card.needs else []
            passed = [index for index, judgement in enumerate(before) if judgement and judgement.status == "pass"]
            _judge(self.gates, place, passed if gate.card.needs else range(len(answers)), answers, scored)
        weights = {gate.name: gate.weight or 0.0 for gate in self.card.gates}
        for phase in self.card.curriculum:
            if phase.begins <= progress:
                weights = dict(phase.weights)
        needed = set[str]()  # gates that the reward rests on: those of positive weight and, through `needs`, those before them
        for card in reversed(self.card.gates):
            if weights[card.name] > 0 or card.name in needed:
                needed |= {card.name, *([card.needs] if card.needs else [])}
        for index in range(len(answers)):
            judgements = {name: judgement for name, judgement in scored.of_answer(index).items() if judgement}
            if not any(judgement.score is None and name in needed for name, judgement in judgements.items()):
                scores = (weights[name] * judgement.score for name, judgement in judgements.items() if judgement.score is not None)
                scored.rewards[index] = min(1.0, math.fsum(scores))  # weights sum to 1 only to within rounding

    def _with_upstream(self, judgements: Mapping[str, Judgement | None]) -> dict[str, Judgement | None]:
        """One answer's judgements, where a gate that was not reached because a gate it needs was unknown is itself unknown."""
        filled: dict[str, Judgement | None] = {}
        for card in self.card.gates:
            above = filled[card.needs] if card.needs else None
            is_lost = judgements[card.name] is None and above is not None and above.status == "unknown"
            filled[card.name] = _unknown("a gate that this one needs is unknown") if is_lost else judgements[card.name]
        return filled

    def _finished(self, reward: float) -> float:
        if self.card.cap is not None:
            reward = min(reward, self.card.cap)
        if self.card.invert:
            reward = 1.0 - reward
        scale = self.card.scale
        return reward if scale is None else scale.low + reward * (scale.high - scale.low)


def _taken(rule: AnswerRule | None, completions: Sequence[Answer]) -> list[Taken] | None:
    return None if rule is None else [take(rule, completion.text) for completion in completions]


def _judge(
    gates: Sequence[ReadyGate], place: int, reached: Sequence[int], completions: Sequence[Answer], scored: Scored
) -> list[Judgement]:
    """Let a gate judge the completions that reach it, or their answers, each with the judgements of earlier gates that the gate reads. One
    that has no answer fails. Writes down in `scored` what it says and how long it takes."""
    began = time.perf_counter()
    gate, kinds = gates[place], declared(gates[place].card.kind, "READS")
    column: list[Judgement | None] = [None] * len(completions)
    taken = scored.taken if gate.card.judges == "answer" else None
    if taken is not None:
        for index in reached:
            if (answer := taken[index]).text is None:
                column[index] = _unknown(answer.reason) if answer.unknown else Judgement("fail", 0.0, answer.reason)
    asked = [index for index in reached if column[index] is None]
    batch = [completions[index] if taken is None else scored.answer(index, completions[index]) for index in asked]
    if sources := {earlier.card.kind: scored.judgements[earlier.card.name] for earlier in gates[:place] if earlier.card.kind in kinds}:
        earlier = [{kind: judgement for kind, judged in sources.items() if (judgement := judged[index])} for index in asked]
        batch = [replace(answer, earlier=judgements) for answer, judgements in zip(batch, earlier, strict=True)]
    for index, judgement in zip(asked, gate.judge(batch) if batch else (), strict=True):
        column[index] = judgement
    scored.judgements[gate.card.name] = column
    scored.seconds[gate.card.name] = time.perf_counter() - began
    return [judgement for index in reached if (judgement := column[index])]


def holds(condition: Expression, answer: Answer, judgements: Mapping[str, Judgement | None]) -> bool | None:
    """Whether a condition holds; None when that hangs on a gate that does not know. `judgements`: by gate, None = not reached."""
    return truth(condition, lambda leaf: _leaf(leaf, answer, judgements))


def _leaf(leaf: Leaf, answer: Answer, judgements: Mapping[str, Judgement | None]) -> bool | None:
    if isinstance(leaf, Signal):
        return (answer.truncated if leaf.signal == "truncated" else not answer.text.strip()) == leaf.holds
    assert isinstance(leaf, Mark | Status)  # metrics are not known of a single completion
    judgement = judgements[leaf.gate]
    is_unknown = judgement is not None and judgement.status == "unknown"
    if isinstance(leaf, Status):
        return None if is_unknown else ((judgement.status if judgement else "not_reached") == leaf.status) == leaf.holds
    if judgement is not None and is_unknown and leaf.mark not in judgement.marks:
        return None
    return (judgement is not None and judgement.marks.get(leaf.mark, False)) == leaf.holds


def compose(reward: Reward) -> Composed:
    """Build a reward from its card, which the compiler has checked. Raises KeyError for an unknown kind of gate."""
    return Composed(reward, _ready(reward.gates))


def _ready(gates: Sequence[Gate]) -> tuple[ReadyGate, ...]:
    plugins = {card.kind: load(GATES, card.kind) for card in gates}
    return tuple(ReadyGate(card, plugins[card.kind], plugins[card.kind].Settings.model_validate(card.settings)) for card in gates)


def score_each(gates: Sequence[Gate], completions: Sequence[Answer], rule: AnswerRule | None = None) -> Scored:
    """Every gate judges every completion, or its answer, by itself; there are no rewards. For the shared evaluation."""
    ready, scored = _ready(gates), Scored([None] * len(completions), taken=_taken(rule, completions))
    for place in range(len(ready)):
        _judge(ready, place, range(len(completions)), completions, scored)
    return scored


@dataclass(frozen=True)
class ExampleOutcome:
    """What the author of a reward expected of a completion, and what it got (None = unknown)."""

    completion: str
    expect: float
    got: float | None
    why: str
    ok: bool


def check_examples(reward: Reward) -> list[ExampleOutcome]:
    """Score the author's examples. They belong to the named reward, so an inversion is left out. `why`: the gates that a completion went
    through, and its penalties, such as `format: pass; tests: fail (2 of 6 tests passed); penalty runaway`."""
    answers = [
        Answer(example.completion, example.row, truncated=example.truncated, key=f"example-{index}", tokens=example.tokens)
        for index, example in enumerate(reward.examples)
    ]
    scored = compose(reward.model_copy(update={"invert": False})).score(answers)
    outcomes = []
    for index, (example, got) in enumerate(zip(reward.examples, scored.rewards, strict=True)):
        way = [
            f"{name}: {judgement.status}" + (f" ({judgement.reason})" if judgement.reason else "")
            for name, judgement in scored.of_answer(index).items()
            if judgement is not None
        ]
        way += [f"penalty {name}" for name, held in scored.penalties.items() if held[index]]
        is_right = got is not None and abs(got - example.expect) <= TOLERANCE
        outcomes.append(ExampleOutcome(example.completion, example.expect, got, "; ".join(way), is_right))
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
