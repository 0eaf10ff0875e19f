"""Rewards as a stage receives them: gates in order, each with its resolved settings."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from stages.contracts.artifact import Frozen


class GateCard(Frozen):
    """One gate. `kind` names the module in `stages/train/rewards/`; `settings` are its Settings model, dumped."""

    name: str
    kind: str
    settings: dict[str, Any]
    on_pass: float | None = None
    """Reward when this gate passes; null: go on to the next gate (the last gate's own score counts)."""
    on_fail: float | None = None
    """Reward when this gate fails; null: go on to the next gate (the last gate's own score counts)."""


class ExampleCard(Frozen):
    """A completion whose reward the author knows. `row` is the data row the gates see, resolved by the compiler."""

    completion: str
    row: dict[str, Any]
    expect: float
    because: str = ""


class RewardCard(Frozen):
    """A composed reward. Reward of a completion is null when a gate that was needed did not know."""

    name: str
    combine: Literal["first_decides"] = "first_decides"
    gates: tuple[GateCard, ...] = Field(min_length=1)
    invert: bool = False
    """1 - reward; null stays null."""
    examples: tuple[ExampleCard, ...] = ()
    unknown_limit: float = 0.05
    """Largest share of unknown completions in a step, 0..1; above it the attempt stops."""
