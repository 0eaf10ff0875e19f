"""Experiment -> runs: one a condition and seed, with the settings of its condition merged in and validated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from compiler.document.layers import overlay
from compiler.document.node import Node
from compiler.document.validate import validated
from compiler.language.algorithms import SECTIONS, algorithm, train_settings
from compiler.language.experiment import Experiment
from compiler.language.gates import GateUse
from compiler.language.rewards import (
    Declared,
    Penalties,
    RewardUse,
    combined_scores,
    composed,
    declared_gates,
    penalty_cards,
    scores,
    unrewarded,
)
from compiler.language.spec import Condition
from compiler.problems import problem
from stages.contracts.algorithms import ALGORITHMS, SFT
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.evaluation import CombinedCard
from stages.contracts.model import Adapter, TrainData
from stages.contracts.training import TrainSettings

M = TypeVar("M")
MAX_RUNS = 20_000


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
    rewards: Declared
    """Gates of each declared reward."""
    scores: tuple[GateUse, ...]
    penalties: Penalties
    combined: tuple[CombinedCard, ...] = ()
    """Scores made of other scores."""
    problems: list[Diagnostic] = field(default_factory=list)


def expand(of: Experiment) -> Expansion:
    """All setups and runs, in the order of conditions and seeds, and what is wrong with them."""
    problems: list[Diagnostic] = []
    rewards = {name: declared_gates(of, name, problems) for name in of.spec.rewards}
    penalties = {name: penalty_cards(of, name, uses, problems) for name, uses in rewards.items()}
    setups = []
    sections = _Sections(of, problems)
    for name, condition in of.spec.conditions.items():
        node = of.node("conditions", name)
        train = None if _other_algorithm(of, name, node.get("train"), problems) else sections.train_of(node.get("train"))
        data = sections.data.under(node.get("data", "train"))
        adapter = sections.adapter.under(node.get("model", "adapter"))
        if (algorithm(node.get("train")) if node.get("train", "algorithm") else algorithm(of.root.get("train"))) == SFT:
            reward: RewardUse | None = unrewarded(of, name)
        else:
            reward = composed(of, name, condition, rewards, penalties, problems)
        if train and data and adapter and reward:
            setups.append(Setup(name, condition, node, *train, *data, *adapter, reward))
    seeds = [of.node("seeds", index) for index in range(len(of.spec.seeds))]
    if len(setups) * len(seeds) > MAX_RUNS:
        problems.append(too_many(len(setups), len(seeds), of.node("seeds").key))
        seeds = []
    runs = tuple(Run(setup, seed.value, seed) for setup in setups for seed in seeds)
    scored = scores(of, rewards, problems)
    combined = combined_scores(of, scored, problems)
    return Expansion(tuple(setups), runs, rewards, scored, penalties, combined, problems)


def too_many(conditions: int, seeds: int, place: Place | None) -> Diagnostic:
    facts = {"conditions": f"{conditions:,}", "seeds": f"{seeds:,}", "runs": f"{conditions * seeds:,}", "most": f"{MAX_RUNS:,}"}
    return problem("E354", place, None, **facts)


def _other_algorithm(of: Experiment, name: str, over: Node | None, problems: list[Diagnostic]) -> bool:
    """E358 when a condition changes the algorithm: settings, metrics and health differ, so there is nothing to compare. Gold answers
    may stand beside rewards: what both lead to is compared on the shared evaluation."""
    written = over.get("algorithm") if over is not None else None
    base, shared = algorithm(of.root.get("train")), of.root.get("train", "algorithm")
    if written is None or base is None or written.value in (base, None):
        return False
    if written.value in ALGORITHMS and SFT in (base, written.value):
        return False
    note, default = (shared.place, "") if shared else (None, ", the default")
    problems.append(problem("E358", written.place, note, condition=name, algorithm=base, default=default))
    return True


class _Sections:
    """Sections of the experiment with a condition's on top. Conditions that change nothing share one validated section."""

    def __init__(self, of: Experiment, problems: list[Diagnostic]) -> None:
        self.of, self.problems = of, problems
        model, root = of.node("model"), of.root
        self.train = _Section(train_settings, root.get("train"), problems)
        self.data = _Section(partial(validated, TrainData, where="data.train"), root.get("data", "train"), problems)
        self.other = {
            name: _Section(train_settings, _shared(root.get("train"), name), problems)
            for name in ALGORITHMS
            if root.get("train") is not None and name != algorithm(root.get("train"))
        }
        adapter = root.get("model", "adapter") or Node({}, model.place, model.key)
        self.adapter = _Section(partial(validated, Adapter, where="model.adapter"), adapter, problems)

    def train_of(self, over: Node | None) -> tuple[TrainSettings, Node] | None:
        """Settings of training under a condition's; of another algorithm those that both have."""
        named = over.get("algorithm") if over is not None else None
        section = self.other.get(named.value, self.train) if named is not None and isinstance(named.value, str) else self.train
        return section.under(over)


def _shared(train: Node | None, name: str) -> Node | None:
    """A `train` section without the keys that another algorithm does not have, and without its stop rule, which is about its metrics."""
    if train is None or not isinstance(train.value, dict):
        return train
    known = set(SECTIONS[name].model_fields) - {"early_stop"}
    return Node({key: node for key, node in train.value.items() if key in known}, train.place, train.key, train.layer)


class _Section(Generic[M]):
    def __init__(
        self, validate: Callable[[Node], tuple[M | None, list[Diagnostic]]], base: Node | None, problems: list[Diagnostic]
    ) -> None:
        self.validate, self.base, self.problems = validate, base, problems
        self.plain: tuple[M, Node] | None = None
        self.known = False

    def under(self, over: Node | None) -> tuple[M, Node] | None:
        """The section with a condition's keys on top, and where each came from; None when it is wrong."""
        if over is None and self.known:
            return self.plain
        assert self.base is not None  # the model of a spec asks for it
        node = self.base if over is None else overlay(self.base, over, "condition")
        value, problems = self.validate(node)
        self.problems.extend(problems)
        found = None if value is None else (value, node)
        if over is None:
            self.plain, self.known = found, True
        return found
