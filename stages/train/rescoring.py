"""Completions of a run scored again with today's gates: what the report of `octavo rescore` holds. It is no stage's input."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.model import DatasetRef
from stages.contracts.reward import Reward


class ScoredCard(Frozen):
    """What scoring needs of a train card, of whatever algorithm and age: keys that it does not know are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    experiment: str
    condition: str
    seed: int
    data: DatasetRef
    reward: Reward
    train: dict[str, Any]


class Counts(Frozen):
    """What a gate said of all completions."""

    passed: int
    failed: int
    unknown: int
    not_reached: int


class GateChange(Frozen):
    """One gate then and now. `before` is null when the stored completions have no columns of it."""

    gate: str
    before: Counts | None
    after: Counts
    changed: int
    """Completions of which it says something else: another status, or another score."""
    gained: int
    """Of those: it passes them and did not before."""
    lost: int
    """Of those: it passed them and does not now."""


class StepChange(Frozen):
    """One step of the curves. Means are over known rewards, null when there are none."""

    step: int
    completions: int
    reward_before: float | None
    reward_after: float | None
    zero_signal_before: int
    """Groups whose known rewards were all equal."""
    zero_signal_after: int
    groups: int
    """Of two completions or more: PPO compares none."""
    unknown_before: int
    unknown_after: int


class Said(Frozen):
    """One gate on one completion. Statuses as in stages/contracts/history.py."""

    gate: str
    before: str | None
    score_before: float | None
    after: str
    score_after: float | None
    reason: str
    """Today's reason; untrusted."""


class CompletionChange(Frozen):
    """A completion whose reward, or what a gate says of it, is another one today."""

    attempt: str
    step: int
    prompt_id: str
    group: int
    place: int
    """0-based, among the step's completions."""
    reward_before: float | None
    reward_after: float | None
    gates: tuple[Said, ...]
    """Those that say something else."""
    text: str
    """The completion; untrusted."""


class Rescoring(Artifact):
    """The report."""

    SCHEMA: ClassVar[str] = "octavo.rescoring/1"

    run: str
    scored_with: Literal["card", "spec"]
    """card: the reward that the run was trained on; spec: the one that the spec declares now."""
    reward: str
    card_id: str
    """Card of the attempt that wrote the completions."""
    sandbox: str
    seconds: float
    completions: int
    steps: int
    higher: int
    """Completions whose reward rose. Both rewards known, as for `lower`."""
    lower: int
    newly_unknown: int
    newly_known: int
    changed: int
    """Completions whose reward is another one: the four above."""
    unknown_before: int
    unknown_after: int
    without_row: int
    """Completions whose prompt is no longer in the data: unknown today."""
    mean_before: float | None
    mean_after: float | None
    gates: tuple[GateChange, ...]
    curve: tuple[StepChange, ...]
    """One entry a step; of a step that was made twice, the attempt that counts."""
    changes: tuple[CompletionChange, ...]
