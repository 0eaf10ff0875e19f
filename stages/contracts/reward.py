"""Rewards: gates in order, how they combine, and what is taken off afterwards. What a spec and a card say alike is one model; a card's
own models add what the compiler resolves: names, settings of each kind in full, conditions as data, rows of examples."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from stages.contracts.answer import AnswerRule
from stages.contracts.artifact import Section, later
from stages.contracts.expressions import Expression
from stages.contracts.names import Share, Slug, exactly_one, refused


class Decisions(Section):
    """What a gate means for its reward. As a score of its own it means nothing."""

    on_pass: float | None = Field(None, ge=-1000, le=1000, description="Reward when this gate passes; not given: go on to the next gate.")
    on_fail: float | None = Field(None, ge=-1000, le=1000, description="Reward when this gate fails; not given: go on to the next gate.")
    weight: float | None = Field(
        None, ge=0, le=1, json_schema_extra={"unit": "share"}, description="For `combine: weighted`: share of its score in the reward."
    )
    needs: Slug | None = Field(None, description="For `combine: weighted`: an earlier gate that must pass, or this one counts 0.")


class GateText(Decisions):
    """Which text a gate judges."""

    judges: Literal["answer", "completion"] = later(
        "answer", description="Of a reward with `answer`: answer: what was taken out of the completion. completion: all of it."
    )


class Gate(GateText):
    """One gate. `kind` names the module in `stages/train/rewards/`; `settings` are its Settings model, dumped."""

    name: str
    kind: str
    settings: dict[str, Any]


class Effect(Section):
    """What becomes of the reward when a condition holds: exactly one of `set` and `factor`."""

    set: float | None = Field(None, ge=0, le=1, description="The reward becomes this.")
    factor: float | None = Field(None, ge=0, le=1, description="The reward is multiplied by this.")

    _exactly_one = exactly_one("set", "factor", says="a penalty has", why="each means something else", fix="set: 0.0")


class Penalty(Effect):
    """Penalties apply in order, after the gates are combined and before the cap. When `when` is unknown, the reward is null."""

    name: str
    when: Expression


class Phase(Section):
    """Weights of all gates from a share of training on, up to the next phase; before the first one the gates' own weights hold."""

    begins: float = Field(
        alias="from", ge=0, json_schema_extra={"unit": "share"}, description="Share of the run's steps after which it begins."
    )
    weights: dict[Slug, Share] = Field(description="Weight of every gate; they sum to 1.")


class Example(Section):
    """A completion whose reward the author knows. `row` is the data row the gates see."""

    completion: str = Field(description="What a model might write.")
    row: dict[str, Any]
    expect: float = Field(description="The reward it must get.")
    because: str = Field("", description="Why, in a few words.")
    truncated: bool = later(False, description="Score it as a completion that was cut at the length limit.")
    tokens: int | None = Field(None, ge=0, description="Its length in tokens, for gates that count them.")


class Unknown(Section):
    """What happens when a gate does not know, for example because its verifier crashed."""

    limit: Share = Field(0.05, description="Largest share of unknown completions in a step; above it the attempt stops.")


class Scale(Section):
    """Another range for a reward, such as that of `2 - words/16`: its 0 becomes `low`, its 1 becomes `high`."""

    low: float = Field(ge=-1000, le=1000, json_schema_extra={"unit": "reward"}, description="What the lowest reward becomes.")
    high: float = Field(ge=-1000, le=1000, json_schema_extra={"unit": "reward"}, description="What the highest reward becomes.")

    @model_validator(mode="after")
    def _rises(self) -> Scale:
        if self.low >= self.high:
            fix = f"scale: {{low: {self.high:g}, high: {self.low:g}}}" if self.high < self.low else "scale: {low: -2, high: 2}"
            raise refused("E220", low=self.low, high=self.high, fix=fix)
        return self


class RewardRules(Section):
    """What a reward says beside its gates.

    first_decides: gates in order; the first one that decides ends the way.
    weighted: every gate that is reached judges; the reward is the sum of weight times score (partial credit counts). A gate is
    needed when its weight is above 0, or when a needed gate `needs` it. Then penalties, then the cap, then the inversion, then the scale.
    """

    combine: Literal["first_decides", "weighted"] = Field(
        "first_decides", description="first_decides: the first gate that decides ends the way. weighted: the sum of weight times score."
    )
    answer: AnswerRule | None = Field(
        None, description="Where the answer stands in a completion; gates judge it alone. Not given: the whole completion is the answer."
    )
    curriculum: tuple[Phase, ...] = Field((), max_length=100, description="For `weighted`: other weights from a share of training on.")
    cap: float | None = Field(None, gt=0, le=1, description="No reward is above this.")
    scale: Scale | None = Field(None, description="Range of the reward for trainer, history and examples; not given: 0 to 1.")
    unknown: Unknown = Field(default_factory=Unknown, description="What happens when a gate does not know.")


class Reward(RewardRules):
    """A composed reward. Reward of a completion is null when a gate that was needed did not know. Examples are scored before any
    inversion, with the weights of the start of training, on the reward's scale."""

    name: str
    gates: tuple[Gate, ...] = Field(min_length=1)
    invert: bool = False
    """1 - reward; null stays null."""
    examples: tuple[Example, ...] = ()
    penalties: tuple[Penalty, ...] = ()
