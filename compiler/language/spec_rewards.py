"""The language of rewards: gates in order, examples, and the forms in which a condition names a reward."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag

from stages.contracts import reward
from stages.contracts.artifact import Section
from stages.contracts.names import Slug, refused
from stages.contracts.reward import Decisions, Effect, RewardRules


class Gate(Decisions):
    """One gate; the keys beside these are the settings of its kind."""

    model_config = ConfigDict(extra="allow")

    kind: str = Field(description="Kind of gate: a file in stages/train/rewards/.")


def _named(kind: str, why: str, fix: str) -> BeforeValidator:
    """One name and its block, before the block is looked at: without a name, each setting would be taken for one."""

    def check(entry: Any) -> Any:
        if isinstance(entry, dict) and len(entry) != 1:
            names = ", ".join(f"`{name}`" for name in entry) or "none"
            raise refused("E210", kind=kind, names=names, why=why, fix=fix)
        return entry

    return BeforeValidator(check)


NamedGate = Annotated[dict[Slug, Gate], _named("a gate", "gates decide in order, so each is an entry of its own", "- tests: {kind: ...}")]


class Penalty(Effect):
    """What becomes of the reward when a condition holds: exactly one of `set` and `factor`."""

    when: str = Field(
        min_length=1,
        description="Words `truncated`, `empty`, `<gate>.pass`, `<gate>.fail`, `<gate>.not_reached`, `<gate>.<mark>`, and, or, not.",
    )


NamedPenalty = Annotated[
    dict[Slug, Penalty],
    _named("a penalty", "penalties apply in order, so each is an entry of its own", "- runaway: {when: truncated, set: 0.0}"),
]


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
        (), max_length=5000, description="Completions with the reward they must get; run before training and by `octavo check --rewards`."
    )
    penalties: tuple[NamedPenalty, ...] = Field(
        (), max_length=20, description="What is taken off afterwards, in order, each `name: {when: ..., set: 0.0}`."
    )


class Inverted(Section):
    """1 - another reward; unknown stays unknown."""

    invert: Slug = Field(description="Name of the reward that is inverted.")


class RandomReward(Section):
    """A reward that knows nothing of the completion."""

    random: Literal["bernoulli", "uniform"] = Field(description="bernoulli: 1 with probability p, else 0. uniform: a number in [0, 1).")
    p: float = Field(0.5, ge=0, le=1, json_schema_extra={"unit": "share"}, description="Probability of a 1, for bernoulli.")


class ConstantReward(Section):
    """The same reward for every completion."""

    constant: float = Field(ge=0, le=1, description="The reward.")


def _reward_form(value: Any) -> str | None:
    if isinstance(value, str):
        return "(name)"
    tags = [
        tag
        for key, tag in (("invert", "(invert)"), ("random", "(random)"), ("constant", "(constant)"))
        if (key in value if isinstance(value, dict) else hasattr(value, key))
    ]
    return tags[0] if len(tags) == 1 else None


RewardUse = Annotated[
    Annotated[Slug, Tag("(name)")]
    | Annotated[Inverted, Tag("(invert)")]
    | Annotated[RandomReward, Tag("(random)")]
    | Annotated[ConstantReward, Tag("(constant)")],
    Discriminator(_reward_form),
]
"""A reward as a condition names it. The tags are in parentheses because they show up in pydantic's locations and are no keys."""
