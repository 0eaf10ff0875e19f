"""The language of rewards: gates in order, examples, and the forms in which a condition names a reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from compiler.document.node import Node
from compiler.document.validate import validated
from compiler.problems import unknown
from stages.contracts import reward
from stages.contracts.artifact import Section
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.names import Share, Slug, refused
from stages.contracts.plugin import GATES, kinds, load
from stages.contracts.reward import Decisions, Effect, GateText, RewardRules


class Gate(GateText):
    """One gate; the keys beside these are the settings of its kind."""

    model_config = ConfigDict(extra="allow")

    kind: str = Field(description="Kind of gate: a file in stages/train/rewards/.")


def _named(code: str) -> BeforeValidator:
    """One name and its block, before the block is looked at: without a name, each setting would be taken for one."""

    def check(entry: Any) -> Any:
        if isinstance(entry, dict) and len(entry) != 1:
            raise refused(code, names=", ".join(f"`{name}`" for name in entry) or "none")
        return entry

    return BeforeValidator(check)


NamedGate = Annotated[dict[Slug, Gate], _named("E210")]


class Penalty(Effect):
    """What becomes of the reward when a condition holds: exactly one of `set` and `factor`."""

    when: str = Field(min_length=1, description="`truncated`, `empty`, `<gate>.pass`, `.fail`, `.not_reached`, `.<mark>`, and, or, not.")


NamedPenalty = Annotated[dict[Slug, Penalty], _named("E210.penalty")]
Row = Annotated[
    Annotated[str, Tag("(id)")] | Annotated[dict[str, Any], Tag("(row)")],
    Discriminator(lambda value: "(row)" if isinstance(value, dict) else "(id)"),
]


class Example(reward.Example):
    """A completion whose reward you know."""

    row: Row = Field(  # type: ignore[assignment]  # the compiler looks it up
        description="`id` of the row in the training data that it answers; or a row of its own: {tests: [...], answer: ...}."
    )


class Reward(RewardRules):
    """A reward: gates in order."""

    gates: tuple[NamedGate, ...] = Field(max_length=100, min_length=1, description="Gates in order, each `name: {kind: ..., settings}`.")
    examples: tuple[Example, ...] = Field(
        (), max_length=5000, description="Completions with the reward they must get (`octavo check --rewards`)."
    )
    penalties: tuple[NamedPenalty, ...] = Field(
        (), max_length=20, description="What is taken off afterwards, in order: `name: {when: ..., set: 0}`."
    )


class Inverted(Section):
    """1 - another reward; unknown stays unknown."""

    invert: Slug = Field(description="Name of the reward that is inverted.")


class RandomReward(Section):
    """A reward that knows nothing of the completion."""

    random: Literal["bernoulli", "uniform"] = Field(description="bernoulli: 1 with probability p, else 0. uniform: a number in [0, 1).")
    p: Share = Field(0.5, description="Probability of a 1, for bernoulli.")


class ConstantReward(Section):
    """The same reward for every completion."""

    constant: float = Field(ge=0, le=1, description="The reward.")


def _reward_form(value: Any) -> str | None:
    keys = value if isinstance(value, dict) else type(value).model_fields if isinstance(value, Section) else ()
    forms = ["name"] if isinstance(value, str) else [key for key in ("invert", "random", "constant") if key in keys]
    return f"({forms[0]})" if len(forms) == 1 else None


ConditionReward = Annotated[
    Annotated[Slug, Tag("(name)")]
    | Annotated[Inverted, Tag("(invert)")]
    | Annotated[RandomReward, Tag("(random)")]
    | Annotated[ConstantReward, Tag("(constant)")],
    Discriminator(_reward_form),
]
"""A reward as a condition names it. The tags are in parentheses because they show up in pydantic's locations and are no keys."""


OWN_KEYS = ("kind", *GateText.model_fields)
DECISIONS = dict.fromkeys(Decisions.model_fields)
"""What a gate means for its reward; as a score of its own it means nothing."""


@dataclass(frozen=True)
class GateUse:
    """A gate as a spec uses it. `node` is the block with its kind and settings; shorthands such as `constant` have their own."""

    card: reward.Gate
    node: Node


def gate_use(entry: Node, where: str) -> tuple[GateUse | None, list[Diagnostic]]:
    """A one-key map `name: {kind, on_pass, on_fail, settings}` as a gate, or what is wrong with its kind and settings."""
    name, node = next(entry.items())
    kind = node.get("kind")
    assert kind is not None  # the model of a spec asks for it
    if kind.value not in kinds(GATES):
        return None, [unknown("E211", kind.value, kinds(GATES), kind.place, all=", ".join(kinds(GATES)))]
    settings = Node({key: inner for key, inner in node.value.items() if key not in OWN_KEYS}, node.place, node.key)
    value, problems = validated(settings_of(kind.value), settings, f"{where}.{name}")
    own, _ = validated(Gate, node)
    if value is None or own is None:  # the model of the spec says why
        return None, problems
    return GateUse(reward.Gate(name=name, settings=value.model_dump(mode="json"), **own.model_dump(include={*OWN_KEYS})), node), []


def shorthand(kind: str, node: Node, **settings: Any) -> GateUse:
    """The single gate of `{constant: 0.0}` or `{random: bernoulli, p: 0.5}`."""
    return GateUse(reward.Gate(name=kind, kind=kind, settings=settings_of(kind)(**settings).model_dump(mode="json")), node)


def settings_of(kind: str) -> type[BaseModel]:
    """The Settings model of a gate's kind. Raises KeyError for an unknown kind."""
    model = load(GATES, kind).Settings
    assert isinstance(model, type) and issubclass(model, BaseModel)
    return model
