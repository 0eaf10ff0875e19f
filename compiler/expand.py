"""Experiment -> runs: one a condition and seed, with the settings of its condition merged in and validated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from compiler.diagnostics import Diagnostic, Rejected, errors, nearest
from compiler.gates import GateUse, gate_use, shorthand
from compiler.layers import overlay
from compiler.parse import key_place, validated
from compiler.source import Document, Node
from compiler.spec import Adapter, Condition, ConstantReward, Inverted, RandomReward, Reward, Spec, TrainData
from stages.contracts.grpo import GrpoSettings


@dataclass(frozen=True)
class Experiment:
    """A spec, with its profile applied. `name` is its folder's: the file's stem, `@profile` appended for a profile."""

    stem: str
    profile: str | None
    spec: Spec
    root: Node
    document: Document

    @property
    def name(self) -> str:
        return f"{self.stem}@{self.profile}" if self.profile else self.stem

    def node(self, *path: str | int) -> Node:
        """The node at a path that the spec's model guarantees to exist."""
        found = self.root.get(*path)
        assert found is not None, path
        return found


@dataclass(frozen=True)
class RewardUse:
    """The composed reward of a condition. Equal names mean equal rewards."""

    name: str
    declared: str | None
    """The reward in `rewards` that it is made of; None for constants and random ones."""
    gates: tuple[GateUse, ...]
    invert: bool
    unknown_limit: float
    node: Node
    """The condition's `reward`."""
    source: Node | None
    """The declared reward's block."""


@dataclass(frozen=True)
class Setup:
    """A condition with everything that applies to it merged in."""

    name: str
    condition: Condition
    node: Node
    train: GrpoSettings
    train_node: Node
    data: TrainData
    data_node: Node
    adapter: Adapter
    adapter_node: Node | None
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
    rewards: dict[str, tuple[GateUse, ...]]
    """Gates of each declared reward."""
    scores: tuple[GateUse, ...]
    problems: list[Diagnostic] = field(default_factory=list)


def experiment(document: Document, stem: str, profile: str | None = None) -> Experiment:
    """Apply a profile and validate. Raises Rejected with E2xx, or E320 for an unknown profile."""
    spec, problems = validated(Spec, document.root)
    if spec is None:
        raise Rejected(problems)
    root = document.root
    if profile is not None:
        over = root.get("profiles", profile)
        if over is None:
            known = sorted(spec.profiles)
            meant = nearest(profile, known)
            raise Rejected(
                [
                    Diagnostic(
                        "E320",
                        f"{document.file} has no profile `{profile}`" + (f", did you mean `{meant}`?" if meant else ""),
                        why=f"`experiment@profile` names a block below `profiles`; known: {', '.join(known) or 'none'}",
                        fix=f"write `{stem}@{meant}`" if meant else f"write `{stem}`",
                    )
                ]
            )
        root = overlay(Node({key: node for key, node in root.value.items() if key != "profiles"}, root.place), over, "profile")
        spec, problems = validated(Spec, root)
        if spec is None:
            raise Rejected(problems)
    return Experiment(stem, profile, spec, root, document)


def expand(of: Experiment) -> Expansion:
    """All setups and runs, in the order of conditions and seeds, and what is wrong with them."""
    problems: list[Diagnostic] = []
    rewards = {name: _gates(of, name, problems) for name in of.spec.rewards}
    setups = []
    merged = _Merged(of, problems)
    for name, condition in of.spec.conditions.items():
        node = of.node("conditions", name)
        train, data, adapter = merged.train(node), merged.data(node), merged.adapter(node)
        reward = _reward(of, name, condition, rewards, problems)
        if train and data and adapter and reward:
            setups.append(Setup(name, condition, node, *train, *data, *adapter, reward))
    seeds = [of.node("seeds", index) for index in range(len(of.spec.seeds))]
    runs = tuple(Run(setup, seed.value, seed) for setup in setups for seed in seeds)
    return Expansion(tuple(setups), runs, rewards, _scores(of, rewards, problems), problems)


class _Merged:
    """Sections of the experiment with a condition's on top. Conditions that change nothing share one validated section."""

    def __init__(self, of: Experiment, problems: list[Diagnostic]) -> None:
        self.of, self.problems = of, problems
        self.plain: dict[str, object] = {}

    def train(self, condition: Node) -> tuple[GrpoSettings, Node] | None:
        return self._section("train", self.of.root.get("train"), condition.get("train"), lambda node: validated(GrpoSettings, node, "train"))

    def data(self, condition: Node) -> tuple[TrainData, Node] | None:
        over = condition.get("data", "train")
        return self._section("data", self.of.root.get("data", "train"), over, lambda node: validated(TrainData, node, "data.train"))

    def adapter(self, condition: Node) -> tuple[Adapter, Node | None] | None:
        base, over = self.of.root.get("model", "adapter"), condition.get("model", "adapter")
        if base is None and over is None:
            return Adapter(), None
        base = base or Node({}, self.of.node("model").place, self.of.node("model").key)
        return self._section("adapter", base, over, lambda node: validated(Adapter, node, "model.adapter"))

    def _section(self, name: str, base: Node | None, over: Node | None, check: Callable[[Node], tuple[object, list[Diagnostic]]]):  # type: ignore[no-untyped-def]
        if base is None:
            return None
        if over is None and name in self.plain:
            return self.plain[name]
        node = base if over is None else overlay(base, over, "condition")
        value, problems = check(node)
        self.problems.extend(problems)
        found = None if value is None else (value, node)
        if over is None:
            self.plain[name] = found
        return found


def _gates(of: Experiment, reward: str, problems: list[Diagnostic]) -> tuple[GateUse, ...]:
    uses = []
    for index in range(len(of.spec.rewards[reward].gates)):
        use, found = gate_use(of.node("rewards", reward, "gates", index), f"rewards.{reward}.gates")
        problems.extend(found)
        if use is not None:
            uses.append(use)
    return tuple(uses)


def _reward(
    of: Experiment, condition_name: str, condition: Condition, rewards: dict[str, tuple[GateUse, ...]], problems: list[Diagnostic]
) -> RewardUse | None:
    node = of.node("conditions", condition_name, "reward")
    use = condition.reward
    if isinstance(use, ConstantReward):
        gate = shorthand("constant", {"score": use.constant}, node)
        return RewardUse(f"constant({use.constant:g})", None, (gate,), False, 0.05, node, None)
    if isinstance(use, RandomReward):
        name = f"random({use.random}, {use.p:g})" if use.random == "bernoulli" else "random(uniform)"
        return RewardUse(name, None, (shorthand("random", {"distribution": use.random, "p": use.p}, node),), False, 0.05, node, None)
    declared = use.invert if isinstance(use, Inverted) else use
    place = node.get("invert") or node
    if declared not in rewards:
        meant = nearest(declared, rewards)
        known = ", ".join(rewards) or "none"
        problems.append(
            Diagnostic(
                "E301",
                f"no reward `{declared}`" + (f", did you mean `{meant}`?" if meant else ""),
                why=f"a condition names a block below `rewards`; known: {known}",
                fix=f"write `{meant}`" if meant else f"declare it: `rewards: {{{declared}: {{gates: [...]}}}}`",
                place=place.place,
            )
        )
        return None
    reward: Reward = of.spec.rewards[declared]
    if len(rewards[declared]) != len(reward.gates):
        return None
    invert = isinstance(use, Inverted)
    name = f"invert({declared})" if invert else declared
    return RewardUse(name, declared, rewards[declared], invert, reward.unknown.limit, node, of.node("rewards", declared))


def _scores(of: Experiment, rewards: dict[str, tuple[GateUse, ...]], problems: list[Diagnostic]) -> tuple[GateUse, ...]:
    if of.spec.evaluation is None:
        return ()
    scores = []
    for index, score in enumerate(of.spec.evaluation.scores):
        node = of.node("evaluation", "scores", index)
        if isinstance(score, str):
            use = _named_score(score, node, rewards, problems, complete=all(len(rewards[n]) == len(r.gates) for n, r in of.spec.rewards.items()))
        else:
            use, found = gate_use(node, "evaluation.scores")
            problems.extend(found)
        if use is not None:
            scores.append(use)
    return tuple(scores)


def _named_score(
    name: str, node: Node, rewards: dict[str, tuple[GateUse, ...]], problems: list[Diagnostic], complete: bool
) -> GateUse | None:
    found = {reward: use for reward, uses in rewards.items() for use in uses if use.card.name == name}
    cards = {use.card.model_copy(update={"on_pass": None, "on_fail": None}).model_dump_json() for use in found.values()}
    if len(cards) == 1:
        return next(iter(found.values()))
    if not found and not complete:
        return None
    known = sorted({use.card.name for uses in rewards.values() for use in uses})
    meant = nearest(name, known)
    problems.append(
        Diagnostic(
            "E316",
            f"the score `{name}` could be the gate of {' or '.join(f'`{reward}`' for reward in found)}, with different settings"
            if found
            else f"no gate `{name}` to score with" + (f", did you mean `{meant}`?" if meant else ""),
            why="the shared evaluation scores every run with the same gates" + ("" if found else f"; gates of this spec: {', '.join(known) or 'none'}"),
            fix=f"write the gate out: `- {name}: {{kind: ...}}`" if found or not meant else f"write `{meant}`",
            place=node.place,
        )
    )
    return None


__all__ = ["Experiment", "Expansion", "RewardUse", "Run", "Setup", "errors", "expand", "experiment", "key_place"]
