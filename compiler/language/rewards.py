"""Gates and rewards of an experiment: declared ones, shorthands, and the scores of the shared evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.document.node import Node
from compiler.language.experiment import Experiment
from compiler.language.expressions import Unreadable, reward_condition
from compiler.language.gates import DECISIONS, GateUse, gate_use, shorthand
from compiler.language.spec import CombinedScore, Condition
from compiler.language.spec_rewards import ConstantReward, Inverted, RandomReward
from compiler.problems import problem, unknown
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.evaluation import CombinedCard
from stages.contracts.expressions import Expression
from stages.contracts.reward import Example, Penalty, Reward, RewardRules

Declared = dict[str, tuple[GateUse, ...]]
"""Gates of each declared reward, those that could be built."""
Penalties = dict[str, tuple[Penalty, ...] | None]
"""Penalties of each declared reward; None when one of its gates or conditions is wrong."""


@dataclass(frozen=True)
class RewardUse:
    """The composed reward of a condition. Equal names mean equal rewards."""

    name: str
    declared: str | None
    """The reward in `rewards` that it is made of; None for constants and random ones."""
    gates: tuple[GateUse, ...]
    node: Node
    """The condition's `reward`."""
    source: Node | None = None
    """The declared reward's block."""
    invert: bool = False
    rules: RewardRules = field(default_factory=RewardRules)
    penalties: tuple[Penalty, ...] = ()

    def card(self, examples: tuple[Example, ...] = ()) -> Reward:
        """The reward as stages receive it."""
        rules = {key: getattr(self.rules, key) for key in RewardRules.model_fields}
        gates = tuple(gate.card for gate in self.gates)
        return Reward(**rules, name=self.name, gates=gates, invert=self.invert, examples=examples, penalties=self.penalties)


def declared_gates(experiment: Experiment, reward: str, problems: list[Diagnostic]) -> tuple[GateUse, ...]:
    uses = []
    for index in range(len(experiment.spec.rewards[reward].gates)):
        use, wrong = gate_use(experiment.node("rewards", reward, "gates", index), f"rewards.{reward}.gates")
        problems.extend(wrong)
        if use is not None:
            uses.append(use)
    return tuple(uses)


SUPERVISED = "none: gold answers"


def unrewarded(experiment: Experiment, condition_name: str) -> RewardUse:
    """What stands for the reward of a condition that is trained on gold answers."""
    node = experiment.node("conditions", condition_name)
    return RewardUse(SUPERVISED, None, (), node.get("reward") or node)


def composed(
    experiment: Experiment, name: str, condition: Condition, rewards: Declared, penalties: Penalties, problems: list[Diagnostic]
) -> RewardUse | None:
    use = condition.reward
    if use is None:
        block = experiment.node("conditions", name)
        problems.append(problem("E202.reward", block.key or block.place, condition=name))
        return None
    node = experiment.node("conditions", name, "reward")
    if isinstance(use, ConstantReward):
        gate = shorthand("constant", {"score": use.constant}, node)
        return RewardUse(f"constant({use.constant:g})", None, (gate,), node)
    if isinstance(use, RandomReward):
        words = f"random({use.random}, {use.p:g})" if use.random == "bernoulli" else "random(uniform)"
        return RewardUse(words, None, (shorthand("random", {"distribution": use.random, "p": use.p}, node),), node)
    declared = use.invert if isinstance(use, Inverted) else use
    place = node.get("invert") or node
    if declared not in rewards:
        problems.append(unknown("E301", declared, rewards, place.place))
        return None
    reward, after = experiment.spec.rewards[declared], penalties[declared]
    if after is None or any(phase.begins >= 1 for phase in reward.curriculum):
        return None  # its gates or phases are wrong
    invert = isinstance(use, Inverted)
    title, source = f"invert({declared})" if invert else declared, experiment.node("rewards", declared)
    return RewardUse(title, declared, rewards[declared], node, source, invert, reward, after)


def penalty_cards(experiment: Experiment, name: str, uses: tuple[GateUse, ...], problems: list[Diagnostic]) -> tuple[Penalty, ...] | None:
    """Penalties of a declared reward with their conditions read; None, with E350 or E351, when one cannot be read."""
    reward = experiment.spec.rewards[name]
    if len(uses) != len(reward.gates):
        return None  # its gates are wrong, and conditions ask for gates
    kinds = {use.card.name: use.card.kind for use in uses}
    cards = []
    for index, entry in enumerate(reward.penalties):
        penalty_name, penalty = next(iter(entry.items()))
        node = experiment.node("rewards", name, "penalties", index, penalty_name, "when")
        if when := _read(experiment, node, penalty.when, kinds, problems):
            cards.append(Penalty(name=penalty_name, when=when, set=penalty.set, factor=penalty.factor))
    return tuple(cards) if len(cards) == len(reward.penalties) else None


def scores(experiment: Experiment, rewards: Declared, problems: list[Diagnostic]) -> tuple[GateUse, ...]:
    if experiment.spec.evaluation is None:
        return ()
    scores = []
    for index, score in enumerate(experiment.spec.evaluation.scores):
        node = experiment.node("evaluation", "scores", index)
        if not isinstance(score, str) and isinstance(next(iter(score.values())), CombinedScore):
            continue
        if isinstance(score, str):
            use = _named_score(
                score, node, rewards, problems, complete=all(len(rewards[n]) == len(r.gates) for n, r in experiment.spec.rewards.items())
            )
        else:
            use, wrong = gate_use(node, "evaluation.scores")
            problems.extend(wrong)
        if use is not None:
            scores.append(use)
    return tuple(scores)


def combined_scores(experiment: Experiment, uses: Sequence[GateUse], problems: list[Diagnostic]) -> tuple[CombinedCard, ...]:
    """Scores made of other scores; with E350 or E351 for a condition that cannot be read."""
    if experiment.spec.evaluation is None:
        return ()
    kinds = {use.card.name: use.card.kind for use in uses}
    cards = []
    for index, score in enumerate(experiment.spec.evaluation.scores):
        if isinstance(score, str):
            continue
        name, combined = next(iter(score.items()))
        if isinstance(combined, CombinedScore):
            when = _read(experiment, experiment.node("evaluation", "scores", index, name, "when"), combined.when, kinds, problems)
            cards += [CombinedCard(name=name, when=when)] if when else []
    return tuple(cards)


def _read(experiment: Experiment, node: Node, text: str, kinds: Mapping[str, str], problems: list[Diagnostic]) -> Expression | None:
    """The condition that a text says, or None with the reason among the problems."""
    try:
        return reward_condition(text, kinds)
    except Unreadable as error:
        problems.append(error.at(node, experiment.document))
        return None


def _named_score(name: str, node: Node, rewards: Declared, problems: list[Diagnostic], complete: bool) -> GateUse | None:
    matches = {reward: use for reward, uses in rewards.items() for use in uses if use.card.name == name}
    cards = {use.card.model_copy(update=DECISIONS).model_dump_json() for use in matches.values()}
    if len(cards) == 1:
        return next(iter(matches.values()))
    if not matches and not complete:
        return None
    if matches:
        candidates = " or ".join(f"`{reward}`" for reward in matches)
        problems.append(problem("E316.ambiguous", node.place, name=name, rewards=candidates))
    else:
        problems.append(unknown("E316", name, sorted({use.card.name for uses in rewards.values() for use in uses}), node.place))
    return None
