"""Rewards as a stage receives them: gates in order, how they combine, and what is taken off afterwards.

Fields that came later than the first cards have defaults and are left out of a dump while they are unset, so a card that does not
use them keeps its bytes, its name and its runs.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from stages.contracts.artifact import Frozen
from stages.contracts.expressions import Expression


class _Grown(Frozen):
    """A model whose LATER fields are dumped only when they are set."""

    LATER: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_unset_later_fields(self, dumped: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = dumped(self)
        for name, unset in _unset(type(self)):
            if getattr(self, name) == unset:
                found.pop(name, None)
        return found


@functools.cache
def _unset(model: type[_Grown]) -> list[tuple[str, Any]]:
    """LATER fields with their defaults: thousands of gates are dumped, and pydantic looks fields up anew each time."""
    return [(name, model.model_fields[name].default) for name in model.LATER]


class GateCard(_Grown):
    """One gate. `kind` names the module in `stages/train/rewards/`; `settings` are its Settings model, dumped."""

    LATER = frozenset({"weight", "needs"})

    name: str
    kind: str
    settings: dict[str, Any]
    on_pass: float | None = None
    """first_decides only: reward when this gate passes; null: go on to the next gate (the last gate's own score counts)."""
    on_fail: float | None = None
    """first_decides only: reward when this gate fails; null: go on to the next gate (the last gate's own score counts)."""
    weight: float | None = Field(None, ge=0, le=1)
    """weighted only, and required there: share of the gate's score in the reward. The weights of a reward sum to 1."""
    needs: str | None = None
    """weighted only: name of an earlier gate that must have passed; else this gate is not reached and its score counts as 0."""


class PenaltyCard(Frozen):
    """What happens to the reward when `when` holds: exactly one of `set` (the reward becomes this) and `factor` (is multiplied by it).

    Penalties apply in order, after the gates are combined and before the cap. When `when` is unknown, the reward is null.
    """

    name: str
    when: Expression
    set: float | None = Field(None, ge=0, le=1)
    factor: float | None = Field(None, ge=0, le=1)

    @model_validator(mode="after")
    def _one_of_two(self) -> PenaltyCard:
        if (self.set is None) == (self.factor is None):
            raise ValueError(f"penalty {self.name!r} needs exactly one of `set` and `factor`")
        return self


class PhaseCard(Frozen):
    """Weights of all gates from a share of training on, up to the next phase. Before the first phase the gates' own weights hold."""

    from_share: float = Field(ge=0, lt=1)
    """Optimizer steps already done, as a share of the run's steps."""
    weights: dict[str, float]
    """Gate name -> 0..1, one entry for every gate; they sum to 1."""


class ExampleCard(_Grown):
    """A completion whose reward the author knows. `row` is the data row the gates see, resolved by the compiler."""

    LATER = frozenset({"truncated", "tokens"})

    completion: str
    row: dict[str, Any]
    expect: float
    because: str = ""
    truncated: bool = False
    """Score it as a completion that met the length limit."""
    tokens: int | None = None
    """Score it as a completion of this length, for gates that count tokens."""


class ScaleCard(Frozen):
    """The last step of a reward: r in 0..1 becomes low + r * (high - low)."""

    low: float
    high: float

    @model_validator(mode="after")
    def _rises(self) -> ScaleCard:
        if not self.low < self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}")
        return self


class RewardCard(_Grown):
    """A composed reward. Reward of a completion is null when a gate that was needed did not know.

    first_decides: gates in order; the first one that decides ends the way.
    weighted: every gate that is reached judges; the reward is the sum of weight times score (partial credit counts). A gate is
    needed when its weight is above 0, or when a needed gate `needs` it. Then penalties, then the cap, then the inversion, then the scale.
    """

    LATER = frozenset({"penalties", "curriculum", "cap", "scale"})

    name: str
    combine: Literal["first_decides", "weighted"] = "first_decides"
    gates: tuple[GateCard, ...] = Field(min_length=1)
    invert: bool = False
    """1 - reward; null stays null."""
    examples: tuple[ExampleCard, ...] = ()
    """Scored before any inversion, with the weights of the start of training, on the reward's scale."""
    unknown_limit: float = 0.05
    """Largest share of unknown completions in a step, 0..1; above it the attempt stops."""
    penalties: tuple[PenaltyCard, ...] = ()
    """Names are unique."""
    curriculum: tuple[PhaseCard, ...] = ()
    """weighted only: phases in rising order of `from_share`. Unweighted gate scores are logged, so curves compare across phases."""
    cap: float | None = Field(None, ge=0, le=1)
    """No reward is above this (before the inversion)."""
    scale: ScaleCard | None = None
    """What trainer, history and examples see; null: the reward as it is."""
