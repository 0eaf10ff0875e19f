"""Preflight: each condition's reward on completions of the untrained model, before any training."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from stages.contracts.artifact import Artifact, Frozen, Section, later
from stages.contracts.code import Version
from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.names import Share
from stages.contracts.reward import Reward
from stages.contracts.training import Sampler


class Below(Section):
    """An upper bound."""

    below: Share = Field(description="The share must lie below this.")


class PreflightSettings(Section):
    """Each condition's reward on completions of the untrained model, before any training. Null controls are never refused."""

    completions: int = Field(256, ge=2, le=1_000_000, description="Completions per condition.")
    zero_signal_share: Below = Field(Below(below=0.6), description="Refuse a condition when a larger share of groups has no reward spread.")
    truncated: Below = Field(Below(below=0.3), description="Refuse a condition when a larger share of completions is cut.")


class PreflightCondition(Sampler):
    name: str
    null_control: bool
    reward: Reward
    data: DatasetRef
    num_generations: int
    max_completion_length: int
    temperature: float
    top_p: float
    completions_per_step: int | None = None
    """Completions that training samples and scores at a time, on all devices together."""


class PreflightCard(PreflightSettings, Artifact):
    """`runs/<experiment>/preflight/preflight.card.json`. `completions` are rounded down to whole groups."""

    SCHEMA: ClassVar[str] = "octavo.preflight_card/1"

    experiment: str
    model: ModelRef
    conditions: tuple[PreflightCondition, ...]
    supervised: bool = later(False)
    """Whether conditions that learn from gold answers, and need no preflight, stand beside these."""
    seed: int = 0
    device: Literal["cpu", "cuda"]
    versions: dict[str, str]
    code: dict[str, Version]


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


class ProbeReward(Frozen):
    """A degenerate answer (stages/train/probes.py) and the least that it earns on a few rows, before any inversion; null: unknown."""

    name: str
    text: str
    reward: float | None
    best: bool
    """No right answer earns more."""


class StepTime(Frozen):
    """Predicted wall seconds of one training step, from what preflight took on this machine."""

    completions: int
    sampling: float
    scoring: float
    slowest_gate: str
    """The gate that takes most of `scoring`."""


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
    probes: tuple[ProbeReward, ...] = ()
    step: StepTime | None = None
    """Null when nothing was sampled for a step, and in results from before it was predicted."""


class Preflight(Artifact):
    """`preflight/preflight.json`."""

    SCHEMA: ClassVar[str] = "octavo.preflight/1"

    card_id: str
    sandbox: str
    """Sandbox tier that ran model code, or `none needed`."""
    results: tuple[PreflightResult, ...]
