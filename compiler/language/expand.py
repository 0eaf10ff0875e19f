"""Experiment -> runs: one a condition and seed, with the settings of its condition merged in, validated, and its reward composed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from compiler.document.layers import overlay
from compiler.document.node import Node
from compiler.document.validate import validated
from compiler.language.algorithms import SECTIONS, algorithm, train_settings
from compiler.language.experiment import Experiment
from compiler.language.expressions import Unreadable, reward_condition
from compiler.language.libraries import not_audited, passed_on
from compiler.language.rewards import DECISIONS, ConstantReward, GateUse, Inverted, RandomReward, gate_use, shorthand
from compiler.language.spec import CombinedScore, Condition
from compiler.problems import problem, unknown
from stages.contracts.algorithms import ALGORITHMS, SFT
from stages.contracts.answer import AnswerRule
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.evaluation import CombinedCard
from stages.contracts.expressions import Expression
from stages.contracts.model import Adapter, TrainData
from stages.contracts.reward import Example, Penalty, Reward, RewardRules
from stages.contracts.training import TrainSettings

M = TypeVar("M")
MAX_RUNS = 20_000
SUPERVISED = "none: gold answers"
"""Stands for the reward of a condition that is trained on gold answers."""


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


@dataclass(frozen=True)
class Setup:
    """A condition with everything that applies to it merged in."""

    name: str
    condition: Condition
    node: Node
    train: TrainSettings
    train_node: Node
    data: TrainData
    data_node: Node
    adapter: Adapter
    adapter_node: Node
    reward: RewardUse
    derived: Mapping[str, str] = field(default_factory=dict)
    """Formulas of the experiment's derived metrics by their names."""


@dataclass(frozen=True)
class Run:
    """One condition with one seed."""

    setup: Setup
    seed: int
    seed_node: Node

    @property
    def name(self) -> str:
        return f"{self.setup.name}-s{self.seed}"


@dataclass(frozen=True)
class Expansion:
    """What an experiment stands for. With problems of severity error, setups and scores may be incomplete."""

    setups: tuple[Setup, ...]
    runs: tuple[Run, ...]
    rewards: Mapping[str, tuple[GateUse, ...]] = field(default_factory=dict)
    """Gates of each declared reward, those that could be built."""
    scores: tuple[GateUse, ...] = ()
    penalties: Mapping[str, tuple[Penalty, ...] | None] = field(default_factory=dict)
    """Penalties of each declared reward; None when one of its gates or conditions is wrong."""
    combined: tuple[CombinedCard, ...] = ()
    """Scores made of other scores."""
    answer: AnswerRule | None = None
    """Where the answer stands that the scores judge."""
    problems: list[Diagnostic] = field(default_factory=list)


def expand(experiment: Experiment) -> Expansion:
    """All setups and runs, in the order of conditions and seeds, and what is wrong with them."""
    return _Expander(experiment).expansion()


def runs_of(experiment: Experiment, setups: Sequence[Setup], problems: list[Diagnostic]) -> tuple[Run, ...]:
    """One run a setup and seed; none, and E354, when there are too many."""
    seeds = [experiment.node("seeds", index) for index in range(len(experiment.spec.seeds))]
    count = len(setups) * len(seeds)
    if count > MAX_RUNS:
        facts = {"conditions": f"{len(setups):,}", "seeds": f"{len(seeds):,}", "runs": f"{count:,}", "most": f"{MAX_RUNS:,}"}
        problems.append(problem("E354", experiment.node("seeds").key, None, **facts))
        return ()
    return tuple(Run(setup, seed.value, seed) for setup in setups for seed in seeds)


class _Expander:
    """Validates the sections of each condition and composes its reward, and gathers what is wrong."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.spec = experiment, experiment.spec
        self.problems: list[Diagnostic] = []
        self.unchanged: dict[Place, Any] = {}
        """The sections that conditions without keys of their own share, by their place, once they have been validated."""
        self.gates = {name: self._gates(name) for name in self.spec.rewards}
        self.penalties = {name: self._penalties(name) for name in self.spec.rewards}
        self.complete = all(len(self.gates[name]) == len(reward.gates) for name, reward in self.spec.rewards.items())

    def expansion(self) -> Expansion:
        setups = [setup for name, condition in self.spec.conditions.items() if (setup := self._setup(name, condition))]
        runs = runs_of(self.experiment, setups, self.problems)
        scores, combined = self._scores()
        scores, answer = self._with_answer(scores)
        return Expansion(tuple(setups), runs, self.gates, scores, self.penalties, combined, answer, self.problems)

    def _setup(self, name: str, condition: Condition) -> Setup | None:
        root, node, model = self.experiment.root, self.experiment.node("conditions", name), self.experiment.node("model")
        over, train = node.get("train"), None
        if not self._changes_algorithm(name, over):
            train = self._section(train_settings, _base(root.get("train"), over), over)
        blocks = self.experiment.node("data", "train"), node.get("data", "train")
        data = self._section(lambda block: validated(TrainData, block, "data.train"), *blocks)
        blocks = root.get("model", "adapter") or Node({}, model.place, model.key), node.get("model", "adapter")
        adapter = self._section(adapter_settings, *blocks)
        if algorithm(over if node.get("train", "algorithm") else root.get("train")) == SFT:
            reward: RewardUse | None = RewardUse(SUPERVISED, None, (), node.get("reward") or node)
        else:
            reward = self._reward(name, condition)
        if not (train and data and adapter and reward):
            return None
        return Setup(name, condition, node, *train, *data, *adapter, reward, self.spec.metrics)

    def _section(
        self, validate: Callable[[Node], tuple[M | None, list[Diagnostic]]], base: Node, over: Node | None
    ) -> tuple[M, Node] | None:
        """A section with a condition's keys on top, and where each came from; None when it is wrong."""
        if over is None and base.place in self.unchanged:
            section: tuple[M, Node] | None = self.unchanged[base.place]
            return section
        node = base if over is None else overlay(base, over, "condition")
        value, wrong = validate(node)
        self.problems += wrong
        section = None if value is None else (value, node)
        if over is None:
            self.unchanged[base.place] = section
        return section

    def _changes_algorithm(self, name: str, over: Node | None) -> bool:
        """E358 when a condition changes the algorithm: settings, metrics and health differ, so there is nothing to compare. Gold answers
        may stand beside rewards: what both lead to is compared on the shared evaluation."""
        written, train = over.get("algorithm") if over is not None else None, self.experiment.root.get("train")
        base = algorithm(train)
        if written is None or base is None or written.value == base:
            return False
        if isinstance(written.value, str) and written.value in ALGORITHMS and SFT in (base, written.value):
            return False
        shared = train.get("algorithm") if train is not None else None
        note, default = (shared.place, "") if shared else (None, ", the default")
        self.problems.append(problem("E358", written.place, note, condition=name, algorithm=base, default=default))
        return True

    def _gates(self, reward: str) -> tuple[GateUse, ...]:
        gates = self.experiment.entries(self.spec.rewards[reward].gates, "rewards", reward, "gates")
        return tuple(use for _, entry in gates if (use := self._gate(entry, f"rewards.{reward}.gates")))

    def _gate(self, entry: Node, where: str) -> GateUse | None:
        use, wrong = gate_use(entry, where)
        self.problems += wrong
        return use

    def _penalties(self, name: str) -> tuple[Penalty, ...] | None:
        """Penalties of a declared reward with their conditions read; None, with E350 or E351, when one cannot be read."""
        reward, kinds = self.spec.rewards[name], {use.card.name: use.card.kind for use in self.gates[name]}
        if len(self.gates[name]) != len(reward.gates):
            return None  # its gates are wrong, and conditions ask for gates
        cards = []
        for entry, node in self.experiment.entries(reward.penalties, "rewards", name, "penalties"):
            for penalty, effect in entry.items():
                if when := self._condition(kinds, node.value[penalty].value["when"]):
                    cards.append(Penalty(name=penalty, when=when, set=effect.set, factor=effect.factor))
        return tuple(cards) if len(cards) == len(reward.penalties) else None

    def _condition(self, kinds: Mapping[str, str], node: Node) -> Expression | None:
        """A condition, or None with the reason among the problems. `kinds`: gate -> kind."""
        try:
            return reward_condition(node.value, kinds)
        except Unreadable as error:
            self.problems.append(error.at(node, self.experiment.document))
            return None

    def _reward(self, name: str, condition: Condition) -> RewardUse | None:
        use, block = condition.reward, self.experiment.node("conditions", name)
        if use is None:
            self.problems.append(problem("E202.reward", block.key or block.place, condition=name))
            return None
        node = self.experiment.node("conditions", name, "reward")
        if isinstance(use, ConstantReward):
            return RewardUse(f"constant({use.constant:g})", None, (shorthand("constant", node, score=use.constant),), node)
        if isinstance(use, RandomReward):
            words = f"random({use.random}, {use.p:g})" if use.random == "bernoulli" else "random(uniform)"
            return RewardUse(words, None, (shorthand("random", node, distribution=use.random, p=use.p),), node)
        declared, invert = (use.invert, True) if isinstance(use, Inverted) else (use, False)
        if declared not in self.gates:
            self.problems.append(unknown("E301", declared, self.gates, (node.get("invert") or node).place))
            return None
        rules, penalties = self.spec.rewards[declared], self.penalties[declared]
        if penalties is None or any(phase.begins >= 1 for phase in rules.curriculum):
            return None  # its gates or phases are wrong
        title, source = f"invert({declared})" if invert else declared, self.experiment.node("rewards", declared)
        return RewardUse(title, declared, self.gates[declared], node, source, invert, rules, penalties)

    def _scores(self) -> tuple[tuple[GateUse, ...], tuple[CombinedCard, ...]]:
        """Scores of the evaluation: gates of rewards by name, gates of their own; and those that are made of other scores."""
        uses: list[GateUse | None] = []
        combined: list[tuple[str, Node]] = []
        for score, node in self.experiment.entries(self.spec.evaluation.scores if self.spec.evaluation else (), "evaluation", "scores"):
            if isinstance(score, str):
                uses.append(self._named_score(score, node))
            elif isinstance(next(iter(score.values())), CombinedScore):
                combined += node.items()
            else:
                uses.append(self._gate(node, "evaluation.scores"))
        scores = tuple(use for use in uses if use)
        kinds = {use.card.name: use.card.kind for use in scores}
        whens = ((name, self._condition(kinds, block.value["when"])) for name, block in combined)
        return scores, tuple(CombinedCard(name=name, when=when) for name, when in whens if when)

    def _with_answer(self, scores: tuple[GateUse, ...]) -> tuple[tuple[GateUse, ...], AnswerRule | None]:
        """Where the answer stands that the scores judge, and the scores: each judges what it judges in its reward. E231 when rewards
        mark answers in different ways."""
        evaluation = self.spec.evaluation
        if evaluation is None or evaluation.answer is not None:
            return scores, evaluation.answer if evaluation else None
        rules = [{self.spec.rewards[name].answer for name, uses in self.gates.items() if use in uses} for use in scores]
        marked = sorted({rule for each in rules for rule in each if rule}, key=str)
        if len(marked) > 1 or any(len(each) > 1 for each in rules):
            self.problems.append(problem("E231", self.experiment.node("evaluation", "scores").key, source=marked[0].source))
        if not marked:
            return scores, None
        whole = [replace(use, card=use.card.model_copy(update={"judges": "completion"})) for use in scores]
        return tuple(all_of_it if each == {None} else use for use, all_of_it, each in zip(scores, whole, rules, strict=True)), marked[0]

    def _named_score(self, name: str, node: Node) -> GateUse | None:
        matches = {reward: use for reward, uses in self.gates.items() for use in uses if use.card.name == name}
        cards = {use.card.model_copy(update=DECISIONS).model_dump_json() for use in matches.values()}
        if len(cards) == 1:
            return next(iter(matches.values()))
        if matches:
            self.problems.append(problem("E316.ambiguous", node.place, name=name, rewards=" or ".join(f"`{reward}`" for reward in matches)))
        elif self.complete:
            self.problems.append(unknown("E316", name, sorted({use.card.name for uses in self.gates.values() for use in uses}), node.place))
        return None


def adapter_settings(block: Node) -> tuple[Adapter | None, list[Diagnostic]]:
    """The adapter of a `model.adapter` section, or None and what is wrong with it."""
    adapter, problems = validated(Adapter, block, "model.adapter")
    keys = {node.key: key for key, node in block.items()}
    problems = [not_audited(refused, keys.get(refused.place), "lora", "peft") for refused in problems]
    problems += passed_on(block.get("peft"), "lora", Adapter.model_fields, "model.adapter")
    return None if problems else adapter, problems


def _base(train: Node | None, over: Node | None) -> Node:
    """The `train` section that a condition's keys lie on. Under another algorithm: without keys that it does not have, without the stop
    rule, which is about the metrics of the first, and without what goes to TRL unread."""
    assert train is not None  # the model of a spec asks for it
    name = algorithm(over) if over is not None and over.get("algorithm") is not None else None
    if name is None or name == algorithm(train) or not isinstance(train.value, dict):
        return train
    shared = set(SECTIONS[name].model_fields) - {"early_stop", "trl"}
    return Node({key: node for key, node in train.value.items() if key in shared}, train.place, train.key, train.layer)
