"""What `octavo plan` says: the report that it prints as text, Markdown or JSON."""

from __future__ import annotations

from typing import ClassVar, Literal

from compiler.commands.plan_claims import ClaimAtRisk
from compiler.commands.plan_cost import Cost
from compiler.commands.plan_reasons import StagePlan
from stages.contracts.artifact import Artifact, Frozen

PageState = Literal["new", "changes", "may_change", "stays"]


class ExperimentPlan(Frozen):
    name: str
    spec: str
    stages: tuple[StagePlan, ...]
    new_runs: tuple[str, ...] = ()
    removed_runs: tuple[str, ...] = ()
    cost: Cost
    claims: tuple[ClaimAtRisk, ...] = ()
    page: PageState


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
