"""`<run>/health.json`: signals measured on a run, and whether the run counts."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from stages.contracts.artifact import Artifact, Frozen, later
from stages.contracts.attempt import StoppedBy


class Signal(Frozen):
    """One dated measurement of a detector, with its evidence."""

    detector: str
    metric: str
    severity: Literal["info", "warning", "severe"]
    says: str
    """One plain sentence with the numbers in it."""
    onset: int | None = None
    """First step concerned."""
    detected: int | None = None
    """Step at which a live detector could first have known."""
    last: int | None = None
    value: float | None = None
    evidence: dict[str, Any] = {}
    kind: str = later("")
    """Which of the things that the detector can find on the metric, such as `fallen` or `risen`; empty where there is only one."""


class Detection(Frozen):
    """A detector's answer. `looked` with no signals means: it looked and found none."""

    detector: str
    state: Literal["looked", "not_applicable", "not_observable"]
    reason: str = ""
    signals: tuple[Signal, ...] = ()


class GateResult(Frozen):
    """A declared health gate and whether the run passes it."""

    gate: str
    rule: str
    """The rule as words, such as `truncated below 0.5 in the final window`."""
    passed: bool | None
    """null: could not be decided; the run is then not included."""
    says: str


class Exclusion(Frozen):
    """One reason why a run does not count."""

    reason: str
    """As in Health.reasons."""
    says: str
    """The same in plain words: without the name of the gate, its metric in words."""
    gate: str | None = None
    """The health gate that the run fails; null: another reason."""
    rule: str = ""
    """The gate's rule in plain words."""


class Health(Artifact):
    """Signals, health gates, and whether the run is included in findings."""

    SCHEMA: ClassVar[str] = "octavo.health/1"

    run: str
    condition: str
    seed: int
    card_id: str | None
    """Card id from the history's metadata: which card the numbers belong to; null when there is no history."""
    attempt: str | None
    state: Literal["finished", "failed", "unknown", "missing"]
    """unknown: imported, and the log merely ends."""
    steps_done: int | None
    target_steps: int
    failure: str | None = None
    error: str | None = None
    stopped: StoppedBy | None = later(None)
    """The rule that ended the run before its target."""
    detections: tuple[Detection, ...]
    gates: tuple[GateResult, ...]
    included: bool
    reasons: tuple[str, ...]
    """Why not, when not included."""
    exclusions: tuple[Exclusion, ...] = later(())
    """The same reasons as data."""
    stride: int = 1
    """Most common distance between logged steps; above 1 only for imported histories, and shown."""
    valid_until: int | None = None
    """Last step that counts when non-finite gradients persist after it; null: all logged steps may count."""
    notes: tuple[str, ...] = ()
    """Facts about the data that a reader must know, such as steps that two attempts made."""
