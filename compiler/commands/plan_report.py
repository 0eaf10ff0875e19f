"""What `octavo plan` reports. Its strings come from specs, cards and file names: escape before showing."""

from __future__ import annotations

from typing import ClassVar, Literal

from stages.contracts.artifact import Artifact, Frozen

ReasonKind = Literal["new", "card", "code", "data", "file", "retry", "command", "missing", "output", "upstream"]


class Reason(Frozen):
    """Why a stage is not up to date."""

    kind: ReasonKind
    says: str
    """One line, such as `train.learning_rate 0.001 -> 0.0005`."""
    path: str | None = None
    """File concerned; of kind upstream: the stage that may change what this one reads."""
    key: str | None = None
    """Key of the card, such as `train.learning_rate`."""
    old: str | None = None
    new: str | None = None
    """Values as JSON, cut if long; null: the key is not there."""
    place: str | None = None
    """file:line:column in a spec."""


class StagePlan(Frozen):
    """One stage. runs: certain. may_run: only if a stage before it writes other bytes. restored: DVC puts back what it remembers."""

    pipeline: str
    stage: str
    run: str | None = None
    """Name of the run that it trains."""
    trains: bool
    """Whether it trains a model: a run, or a base model."""
    state: Literal["runs", "may_run", "restored", "stays"]
    reasons: tuple[Reason, ...] = ()

    @property
    def imports(self) -> bool:
        """Whether it imports a run."""
        return self.stage.startswith("import-")

    @property
    def makes(self) -> str | None:
        """Name of the run whose data it makes, by training or by an import."""
        return self.stage.removeprefix("import-") if self.imports else self.run


class Cost(Frozen):
    """Device hours of the runs that train. attempts: from this experiment's own finished attempts; resources: as the spec declares."""

    unit: Literal["GPU-hours", "CPU-hours"]
    runs: int
    basis: Literal["attempts", "resources", "no history"]
    attempts: int = 0
    """Finished attempts that the numbers come from."""
    median: float | None = None
    low: float | None = None
    high: float | None = None


class ClaimAtRisk(Frozen):
    """A claim whose verdict rests on what changes."""

    claim: str
    verdict: Literal["supported", "refuted", "inconclusive", "void"] | None
    """null: not concluded on this machine."""
    why: tuple[str, ...]


class ExperimentPlan(Frozen):
    name: str
    spec: str
    stages: tuple[StagePlan, ...]
    new_runs: tuple[str, ...] = ()
    removed_runs: tuple[str, ...] = ()
    cost: Cost
    claims: tuple[ClaimAtRisk, ...] = ()
    page: Literal["new", "changes", "may_change", "stays"]


class Plan(Artifact):
    """What `octavo plan --json` prints."""

    SCHEMA: ClassVar[str] = "octavo.plan/1"

    base: str | None
    """Commit that the specs are compared with; null: what lies on disk."""
    base_name: str | None = None
    experiments: tuple[ExperimentPlan, ...]
    shared: tuple[StagePlan, ...]
    """Stages of no experiment: base models, the site."""
    removed_experiments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be compared and why, in plain sentences."""

    @property
    def stages(self) -> tuple[StagePlan, ...]:
        return (*(stage for experiment in self.experiments for stage in experiment.stages), *self.shared)

    @property
    def training(self) -> tuple[StagePlan, ...]:
        """Stages that certainly train."""
        return tuple(stage for stage in self.stages if stage.trains and stage.state == "runs")
