"""Experiment -> runs: one a condition and seed, with the settings of its condition merged in and validated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

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
Validate = Callable[[Node], tuple[M | None, list[Diagnostic]]]
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


def expand(experiment: Experiment) -> Expansion:
    """All setups and runs, in the order of conditions and seeds, and what is wrong with them."""
    problems: list[Diagnostic] = []
    rewards = {name: declared_gates(experiment, name, problems) for name in experiment.spec.rewards}
    penalties = {name: penalty_cards(experiment, name, uses, problems) for name, uses in rewards.items()}
    setups = []
    root, model = experiment.root, experiment.node("model")
    data_of: Validate[TrainData] = partial(validated, TrainData, where="data.train")
    adapter_of: Validate[Adapter] = partial(validated, Adapter, where="model.adapter")
    trains: list[tuple[TrainSettings, Node] | None] = []
    datas: list[tuple[TrainData, Node] | None] = []
    adapters: list[tuple[Adapter, Node] | None] = []
    for name, condition in experiment.spec.conditions.items():
        node = experiment.node("conditions", name)
        over = node.get("train")
        other = _other_algorithm(experiment, name, over, problems)
        train = None if other else _under(train_settings, _base(root.get("train"), over), over, problems, trains)
        data = _under(data_of, root.get("data", "train"), node.get("data", "train"), problems, datas)
        base = root.get("model", "adapter") or Node({}, model.place, model.key)
        adapter = _under(adapter_of, base, node.get("model", "adapter"), problems, adapters)
        if (algorithm(node.get("train")) if node.get("train", "algorithm") else algorithm(experiment.root.get("train"))) == SFT:
            reward: RewardUse | None = unrewarded(experiment, name)
        else:
            reward = composed(experiment, name, condition, rewards, penalties, problems)
        if train and data and adapter and reward:
            setups.append(Setup(name, condition, node, *train, *data, *adapter, reward))
    seeds = [experiment.node("seeds", index) for index in range(len(experiment.spec.seeds))]
    if len(setups) * len(seeds) > MAX_RUNS:
        problems.append(too_many(len(setups), len(seeds), experiment.node("seeds").key))
        seeds = []
    runs = tuple(Run(setup, seed.value, seed) for setup in setups for seed in seeds)
    scored = scores(experiment, rewards, problems)
    combined = combined_scores(experiment, scored, problems)
    return Expansion(tuple(setups), runs, rewards, scored, penalties, combined, problems)


def too_many(conditions: int, seeds: int, place: Place | None) -> Diagnostic:
    facts = {"conditions": f"{conditions:,}", "seeds": f"{seeds:,}", "runs": f"{conditions * seeds:,}", "most": f"{MAX_RUNS:,}"}
    return problem("E354", place, None, **facts)


def _other_algorithm(experiment: Experiment, name: str, over: Node | None, problems: list[Diagnostic]) -> bool:
    """E358 when a condition changes the algorithm: settings, metrics and health differ, so there is nothing to compare. Gold answers
    may stand beside rewards: what both lead to is compared on the shared evaluation."""
    written = over.get("algorithm") if over is not None else None
    base, shared = algorithm(experiment.root.get("train")), experiment.root.get("train", "algorithm")
    if written is None or base is None or written.value in (base, None):
        return False
    if isinstance(written.value, str) and written.value in ALGORITHMS and SFT in (base, written.value):
        return False
    note, default = (shared.place, "") if shared else (None, ", the default")
    problems.append(problem("E358", written.place, note, condition=name, algorithm=base, default=default))
    return True


def _base(train: Node | None, over: Node | None) -> Node | None:
    """The `train` section that a condition's keys lie on. Under another algorithm: without keys that it does not have, and without the
    stop rule, which is about the metrics of the first."""
    name = algorithm(over) if over is not None and over.get("algorithm") is not None else None
    if name is None or name == algorithm(train) or train is None or not isinstance(train.value, dict):
        return train
    shared = set(SECTIONS[name].model_fields) - {"early_stop"}
    return Node({key: node for key, node in train.value.items() if key in shared}, train.place, train.key, train.layer)


def _under(
    validate: Validate[M], base: Node | None, over: Node | None, problems: list[Diagnostic], unchanged: list[tuple[M, Node] | None]
) -> tuple[M, Node] | None:
    """A section with a condition's keys on top, and where each came from; None when it is wrong. `unchanged`: the section that conditions
    without keys of their own share, once it has been validated."""
    if over is None and unchanged:
        return unchanged[0]
    assert base is not None  # the model of a spec asks for it
    node = base if over is None else overlay(base, over, "condition")
    value, wrong = validate(node)
    problems += wrong
    section = None if value is None else (value, node)
    if over is None:
        unchanged.append(section)
    return section
