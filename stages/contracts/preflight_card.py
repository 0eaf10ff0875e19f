"""Preflight: each condition's reward on completions of the untrained model, before any training."""

from __future__ import annotations

from typing import ClassVar, Literal

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.model_card import DataCard, ModelCard
from stages.contracts.reward_card import RewardCard


class PreflightCondition(Frozen):
    name: str
    null_control: bool
    reward: RewardCard
    data: DataCard
    num_generations: int
    max_completion_length: int
    temperature: float
    top_p: float


class PreflightCard(Artifact):
    """`runs/<experiment>/preflight/preflight.card.json`."""

    SCHEMA: ClassVar[str] = "octavo.preflight_card/1"

    experiment: str
    model: ModelCard
    conditions: tuple[PreflightCondition, ...]
    completions: int
    """Completions per condition, rounded down to whole groups."""
    zero_signal_below: float
    truncated_below: float
    seed: int = 0
    device: Literal["cpu", "cuda"]
    versions: dict[str, str]
    code_hash: str


class Permission(Artifact):
    """`preflight/<condition>.permission.json`: whether the condition may train, nothing that varies between machines."""

    SCHEMA: ClassVar[str] = "octavo.permission/1"

    condition: str
    train: bool
    reasons: tuple[str, ...] = ()
    """Why not, in plain words with numbers; empty when it may."""


class GateShares(Frozen):
    """How many completions reached a gate and what it said. Counts, not shares, so that intervals can be computed."""

    gate: str
    reached: int
    passed: int
    failed: int
    unknown: int


class Atom(Frozen):
    """One exact reward value and how many completions hold it."""

    reward: float
    completions: int


class PreflightResult(Frozen):
    condition: str
    verdict: Literal["pass", "warn", "refuse"]
    reasons: tuple[str, ...]
    completions: int
    groups: int
    zero_signal_groups: int
    truncated: int
    unknown: int
    reward_mean: float | None
    funnel: tuple[GateShares, ...]
    atoms: tuple[Atom, ...]
    seconds: float
    """Wall seconds of scoring, all gates."""


class Preflight(Artifact):
    """`preflight/preflight.json`."""

    SCHEMA: ClassVar[str] = "octavo.preflight/1"

    card_id: str
    sandbox: str
    """Sandbox tier that ran model code, or `none needed`."""
    results: tuple[PreflightResult, ...]
