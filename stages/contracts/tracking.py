"""`tracking` of a spec or of specs/pipeline.yaml, and `runs/<experiment>/tracking.json`: where runs are followed while they train. Read by
train, and no dependency of it: no result changes by it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from stages.contracts.artifact import Artifact, Section

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_. -]{0,127}$")]


class Wandb(Section):
    """Runs at Weights & Biases. Keys for the account are in the environment, never here."""

    project: Name | None = Field(None, description="Project; not given: WANDB_PROJECT, else `octavo`.")
    entity: Name | None = Field(None, description="Team or user; not given: WANDB_ENTITY, else the account's own.")
    tags: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = Field((), max_length=50, description="Beside the spec's `tags`.")
    notes: str = Field("", max_length=2_000, description="Notes of each run; not given: the spec's question.")
    site: Annotated[str, Field(pattern=r"^https://[!-~]{1,300}$")] | None = Field(
        None, description="Where the site is published; the summary of each run then links the page there."
    )
    completions_every: int = Field(20, ge=0, description="Steps from one table of completions to the next; 0: no tables.")


class TrackingSettings(Section):
    """Where runs are followed while they train. It retrains nothing."""

    wandb: Wandb | None = Field(None, description="Weights & Biases; offline where no key is known.")


class Tracking(TrackingSettings, Artifact):
    """How the runs of an experiment are tracked. Tags and notes are complete: those of the spec are among them."""

    SCHEMA: ClassVar[str] = "octavo.tracking/1"


NONE = Tracking()
"""Only what the environment asks for."""
