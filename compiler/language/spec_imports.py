"""`runs: {import: ...}`: an experiment of runs that octavo did not train. Everything after training is as in any other spec."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from compiler.language.spec import Condition, Data, Spec
from stages.contracts.artifact import Section
from stages.contracts.import_card import LogFormat
from stages.contracts.model import Model, TrainData
from stages.contracts.names import ProjectPath, Slug

REFUSED = {
    "model": "no model is loaded",
    "data": "no prompts are read",
    "train": "nothing is trained; the number of steps is `runs.import.steps`",
    "rewards": "no completion is scored; `reward` of a condition says in words what the runs were trained with",
    "preflight": "nothing is sampled before training",
    "evaluation": "there is no model to evaluate, so claims are about imported metrics",
    "retries": "no attempt is made",
    "resources": "reading a log needs none",
    "parent": "what differs was decided where the runs were made",
    "changes": "what differs was decided where the runs were made",
    "hypothesis": "it belongs to a change of a parent",
    "actions": "an action is a change of training",
    "contingency": "a plan is a change of training",
    "profiles": "a profile is the same experiment with other settings, and an import has none",
}
"""Keys that have no place beside `runs: {import: ...}`, and why."""


class ColumnUse(Section):
    """The log's column of a metric, when its name alone does not say enough."""

    column: str = Field(min_length=1, max_length=300, description="Name of the column in the log.")
    unit: str | None = Field(
        None, max_length=40, description="Unit of the log's numbers, when it is not octavo's: `%`, `ms`, `min`, `bits per token`."
    )
    optional: bool = Field(False, description="Some logs lack the column; their runs then have no value of the metric.")


class SummaryUse(Section):
    """What a run's summary holds of a metric: exactly one of `last`, `mean` and `final`."""

    last: str | None = Field(None, description="Key of the last logged value.")
    mean: str | None = Field(None, description="Key of the mean over the whole run.")
    final: str | None = Field(None, description="Key of the source's own mean over the end of the run.")
    initial: str | None = Field(None, description="Key of the source's own mean over the beginning; with `final` it gives a change.")
    nonfinite_from: str | None = Field(None, description="Key of the first step at which the metric was NaN or Inf; null: never.")
    unit: str | None = Field(None, max_length=40, description="Unit of the source's numbers, when it is not octavo's.")


_SUMMARY_KEYS = {"last", "mean", "final", "initial", "nonfinite_from"}


def _form(value: Any) -> str:
    if isinstance(value, str):
        return "(column)"
    keys = set(value) if isinstance(value, dict) else {"last"} if isinstance(value, SummaryUse) else set()
    return "(summary)" if keys & _SUMMARY_KEYS else "(more)"


MetricUse = Annotated[
    Annotated[str, Tag("(column)")] | Annotated[ColumnUse, Tag("(more)")] | Annotated[SummaryUse, Tag("(summary)")], Discriminator(_form)
]


class Import(Section):
    """Where the histories of the runs are, and how they are read."""

    format: LogFormat = Field(
        description="What the logs are. `wandb` is a snapshot with the full history of a W&B run, `wandb_file` an offline `.wandb` file, "
        "`summary` a JSON file of final values."
    )
    path: str | None = Field(
        None,
        min_length=1,
        max_length=400,
        description="Path of a run's log, with `{condition}` and `{seed}`; this or `files`.",
    )
    files: dict[str, ProjectPath] = Field({}, max_length=20_000, description="Run, such as `shaped-s1` -> path of its log; this or `path`.")
    names: dict[Slug, str] = Field({}, max_length=1_000, description="Condition -> its name in paths and in `where`, when it has another.")
    steps: int = Field(ge=1, lt=2**53, description="Steps that every run was meant to make.")
    step: str | None = Field(None, description="Column of the step; not given: the format's own (`step`, of W&B `train/global_step`).")
    epoch: str | None = Field(None, description="Column of the epoch, for logs without a step; with `steps_per_epoch`.")
    steps_per_epoch: float | None = Field(None, gt=0, description="Steps of one epoch: an epoch is no step.")
    counts_from: Literal[0, 1] = Field(1, description="Number that the logs give the first step.")
    pattern: str | None = Field(
        None,
        max_length=1_000,
        description="Of `text`: a line with `{name}` for each number, such as `[Epoch {epoch}]  loss={loss}`; other lines are left out.",
    )
    where: dict[str, str | int] = Field(
        {}, max_length=20, description="Of `summary`: what the run's object holds, with `{condition}` and `{seed}` in texts."
    )
    steps_done: str | None = Field(None, description="Of `summary`: key of the last logged step.")
    metrics: dict[str, MetricUse] = Field(
        min_length=1,
        max_length=500,
        description="octavo's metric -> the log's column, {column: ..., unit: ...}, or of `summary` {last: key} and the like.",
    )
    unavailable: tuple[str, ...] = Field((), max_length=100, description="Metrics that the source does not have; the page says so.")
    entity: str | None = Field(None, max_length=200, description="Of `wandb`: the entity; `octavo compile --update` fetches its runs.")
    project: str | None = Field(None, max_length=200, description="Of `wandb`: the project of the runs.")
    ids: dict[str, str] = Field(
        {}, max_length=20_000, description="Of `wandb`: run -> id of the W&B run. Names are not unique there, ids are."
    )
    config: dict[str, bool | int | float] = Field(
        {},
        max_length=100,
        description="Of `wandb`: numbers and switches that the config of every run must have, such as `learning_rate: 1.0e-6`; a run whose "
        "config differs is not imported.",
    )


class Runs(Section):
    """Where the runs come from, when octavo does not train them."""

    import_: Import = Field(alias="import", description="Histories of runs that exist already.")


class ImportedCondition(Condition):
    """A condition of imported runs."""

    reward: str = Field(
        "", max_length=200, description="The reward the runs were trained with, in words. Only equal words may be compared by reward."
    )


class OutsideSpec(Spec):
    """An experiment whose runs octavo does not train itself. Sections that are refused are never written; theirs stand for nothing."""

    conditions: dict[Slug, ImportedCondition] = Field(  # type: ignore[assignment]  # a narrower kind of condition
        max_length=1_000, min_length=1, description="Conditions by name, in the order of tables and colours."
    )
    model: Model = Field(default_factory=lambda: Model(base="(none)"), description="octavo loads none.")
    data: Data = Field(default_factory=lambda: Data(train=TrainData(path="none")), description="octavo reads none.")


class ImportedSpec(OutsideSpec):
    """An experiment of imported runs."""

    runs: Runs = Field(description="Where the runs come from.")
    train: dict[str, Any] = Field({}, description="Nothing is trained.")
