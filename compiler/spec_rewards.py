"""The language of rewards: gates in order, examples, and the forms in which a condition names a reward."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from compiler.names import Slug, fault
from compiler.spec_part import Part


class Gate(BaseModel):
    """One gate; the keys beside these are the settings of its kind."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str = Field(description="Kind of gate: a file in stages/train/rewards/.")
    on_pass: float | None = Field(None, ge=-1000, le=1000, description="Reward when this gate passes; not given: go on to the next gate.")
    on_fail: float | None = Field(None, ge=-1000, le=1000, description="Reward when this gate fails; not given: go on to the next gate.")


def _one_gate(entry: dict[str, Gate]) -> dict[str, Gate]:
    if len(entry) != 1:
        names = ", ".join(f"`{name}`" for name in entry) or "none"
        raise fault(
            "E210",
            f"a gate is one name with its settings, here: {names}",
            "gates decide in order, so each is an entry of its own",
            "- tests: {kind: ...}",
        )
    return entry


NamedGate = Annotated[dict[Slug, Gate], AfterValidator(_one_gate)]


class Example(Part):
    """A completion whose reward you know."""

    completion: str = Field(description="What a model might write.")
    row: str = Field(description="`id` of the row in the training data that it answers.")
    expect: float = Field(description="The reward it must get.")
    because: str = Field("", description="Why, in a few words.")


class Unknown(Part):
    """What happens when a gate does not know, for example because its verifier crashed."""

    limit: float = Field(
        0.05,
        ge=0,
        le=1,
        json_schema_extra={"unit": "share"},
        description="Largest share of unknown completions in a step; above it the attempt stops.",
    )


class Reward(Part):
    """A reward: gates in order."""

    combine: Literal["first_decides"] = Field("first_decides", description="The first gate that decides ends the way.")
    gates: tuple[NamedGate, ...] = Field(min_length=1, description="Gates in order, each `name: {kind: ..., settings}`.")
    examples: tuple[Example, ...] = Field(
        (), description="Completions with the reward they must get; run before training and by `octavo check --rewards`."
    )
    unknown: Unknown = Field(default_factory=Unknown, description="What happens when a gate does not know.")


class Inverted(Part):
    """1 - another reward; unknown stays unknown."""

    invert: Slug = Field(description="Name of the reward that is inverted.")


class RandomReward(Part):
    """A reward that knows nothing of the completion."""

    random: Literal["bernoulli", "uniform"] = Field(description="bernoulli: 1 with probability p, else 0. uniform: a number in [0, 1).")
    p: float = Field(0.5, ge=0, le=1, json_schema_extra={"unit": "share"}, description="Probability of a 1, for bernoulli.")


class ConstantReward(Part):
    """The same reward for every completion."""

    constant: float = Field(ge=0, le=1, description="The reward.")


def _reward_form(value: Any) -> str | None:
    if isinstance(value, str):
        return "(name)"
    found = [
        tag
        for key, tag in (("invert", "(invert)"), ("random", "(random)"), ("constant", "(constant)"))
        if (key in value if isinstance(value, dict) else hasattr(value, key))
    ]
    return found[0] if len(found) == 1 else None


RewardUse = Annotated[
    Annotated[Slug, Tag("(name)")]
    | Annotated[Inverted, Tag("(invert)")]
    | Annotated[RandomReward, Tag("(random)")]
    | Annotated[ConstantReward, Tag("(constant)")],
    Discriminator(_reward_form),
]
"""A reward as a condition names it. The tags are in parentheses because they show up in pydantic's locations and are no keys."""
