"""The language of rewards: gates in order, examples, and the forms in which a condition names a reward."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from stages.contracts.artifact import Section
from stages.contracts.names import Slug, fault

Weight = Annotated[float, Field(ge=0, le=1, json_schema_extra={"unit": "share"})]


class Gate(BaseModel):
    """One gate; the keys beside these are the settings of its kind."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    kind: str = Field(description="Kind of gate: a file in stages/train/rewards/.")
    on_pass: float | None = Field(None, ge=-1000, le=1000, description="Reward when this gate passes; not given: go on to the next gate.")
    on_fail: float | None = Field(None, ge=-1000, le=1000, description="Reward when this gate fails; not given: go on to the next gate.")
    weight: float | None = Field(
        None, ge=0, le=1, json_schema_extra={"unit": "share"}, description="For `combine: weighted`: share of its score in the reward."
    )
    needs: Slug | None = Field(
        None, description="For `combine: weighted`: an earlier gate that must pass, or this one is not asked and counts 0."
    )


def _one_gate(entry: Any) -> Any:
    return _one(entry, "a gate", "gates decide in order, so each is an entry of its own", "- tests: {kind: ...}")


def _one_penalty(entry: Any) -> Any:
    return _one(entry, "a penalty", "penalties apply in order, so each is an entry of its own", "- runaway: {when: truncated, set: 0.0}")


def _one(entry: Any, what: str, why: str, fix: str) -> Any:
    """Before its parts are looked at: without a name, each setting would be taken for one."""
    if isinstance(entry, dict) and len(entry) != 1:
        names = ", ".join(f"`{name}`" for name in entry) or "none"
        raise fault("E210", f"{what} is one name with its settings, here: {names}", why, fix)
    return entry


NamedGate = Annotated[dict[Slug, Gate], BeforeValidator(_one_gate)]


class Penalty(Section):
    """What becomes of the reward when a condition holds: exactly one of `set` and `factor`."""

    when: str = Field(
        min_length=1,
        description="Words `truncated`, `empty`, `<gate>.pass`, `<gate>.fail`, `<gate>.not_reached`, `<gate>.<mark>`, and, or, not.",
    )
    set: float | None = Field(None, ge=0, le=1, description="The reward becomes this.")
    factor: float | None = Field(None, ge=0, le=1, description="The reward is multiplied by this.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Penalty:
        if (self.set is None) == (self.factor is None):
            raise fault("E209", "a penalty has exactly one of `set` and `factor`", "each means something else", "set: 0.0")
        return self


NamedPenalty = Annotated[dict[Slug, Penalty], BeforeValidator(_one_penalty)]


class Phase(Section):
    """Weights of all gates from a share of training on, up to the next phase; before the first one the gates' own weights hold."""

    begins: float = Field(
        alias="from", ge=0, json_schema_extra={"unit": "share"}, description="Share of the run's steps after which the phase begins."
    )
    weights: dict[Slug, Weight] = Field(description="Weight of every gate; they sum to 1.")


Row = Annotated[
    Annotated[str, Tag("(id)")] | Annotated[dict[str, Any], Tag("(row)")],
    Discriminator(lambda value: "(row)" if isinstance(value, dict) else "(id)"),
]


class Example(Section):
    """A completion whose reward you know."""

    completion: str = Field(description="What a model might write.")
    row: Row = Field(description="`id` of the row in the training data that it answers; or a row of its own: {tests: [...], answer: ...}.")
    expect: float = Field(description="The reward it must get.")
    because: str = Field("", description="Why, in a few words.")
    truncated: bool = Field(False, description="Score it as a completion that was cut at the length limit.")
    tokens: int | None = Field(None, ge=0, description="Its length in tokens, for gates that count them.")


class Unknown(Section):
    """What happens when a gate does not know, for example because its verifier crashed."""

    limit: float = Field(
        0.05,
        ge=0,
        le=1,
        json_schema_extra={"unit": "share"},
        description="Largest share of unknown completions in a step; above it the attempt stops.",
    )


class Scale(Section):
    """Another range for a reward, such as that of `2 - words/16`: its 0 becomes `low`, its 1 becomes `high`."""

    low: float = Field(ge=-1000, le=1000, json_schema_extra={"unit": "reward"}, description="What the lowest reward becomes.")
    high: float = Field(ge=-1000, le=1000, json_schema_extra={"unit": "reward"}, description="What the highest reward becomes.")

    @model_validator(mode="after")
    def _rises(self) -> Scale:
        if self.low >= self.high:
            raise fault(
                "E220",
                f"a scale rises, and {self.low:g} is not below {self.high:g}",
                "turned round it would reward the worst; `{invert: name}` says that openly",
                f"scale: {{low: {self.high:g}, high: {self.low:g}}}" if self.high < self.low else "scale: {low: -2, high: 2}",
            )
        return self


class Reward(Section):
    """A reward: gates in order."""

    combine: Literal["first_decides", "weighted"] = Field(
        "first_decides", description="first_decides: the first gate that decides ends the way. weighted: the sum of weight times score."
    )
    gates: tuple[NamedGate, ...] = Field(max_length=100, min_length=1, description="Gates in order, each `name: {kind: ..., settings}`.")
    examples: tuple[Example, ...] = Field(
        (), max_length=5000, description="Completions with the reward they must get; run before training and by `octavo check --rewards`."
    )
    penalties: tuple[NamedPenalty, ...] = Field(
        (), max_length=20, description="What is taken off afterwards, in order, each `name: {when: ..., set: 0.0}`."
    )
    curriculum: tuple[Phase, ...] = Field(
        (), max_length=100, description="For `combine: weighted`: other weights from a share of training on."
    )
    cap: float | None = Field(None, gt=0, le=1, description="No reward is above this.")
    scale: Scale | None = Field(
        None, description="Range of the reward for trainer, history and examples, after all else; not given: 0 to 1."
    )
    unknown: Unknown = Field(default_factory=Unknown, description="What happens when a gate does not know.")


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
