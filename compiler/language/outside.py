"""Experiments of runs that octavo does not train itself; everything after training is as in any other spec.

`runs: {import: ...}` reads logs that exist. `train: {algorithm: command}` runs the author's own program and reads what it
writes.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Discriminator, Field, Tag

from compiler.language.presets import Preset
from compiler.language.spec import Condition, Data, Spec
from stages.contracts.artifact import Section
from stages.contracts.import_card import Column, LogReading, SummaryKeys
from stages.contracts.model import Model, TrainData
from stages.contracts.names import ProjectPath, Slug

_SUMMARY_KEYS = {*SummaryKeys.model_fields} - {"unit"}


def _form(value: Any) -> str:
    if isinstance(value, str):
        return "(column)"
    keys = set(value) if isinstance(value, dict) else {"last"} if isinstance(value, SummaryKeys) else set()
    return "(summary)" if keys & _SUMMARY_KEYS else "(more)"


MetricUse = Annotated[
    Annotated[str, Tag("(column)")] | Annotated[Column, Tag("(more)")] | Annotated[SummaryKeys, Tag("(summary)")], Discriminator(_form)
]


P = TypeVar("P")
Tries = Annotated[
    Annotated[P, Tag("(one)")] | Annotated[tuple[P, ...], Field(min_length=1, max_length=1_000), Tag("(several)")],
    Discriminator(lambda value: "(several)" if isinstance(value, list | tuple) else "(one)"),
]
"""What a run has one of, or several: one of each try to train it."""


_PRESET = "Trainer that wrote the logs: maps the columns that it has in any version. `metrics` adds to it, and wins."


class Import(LogReading):
    """Where the histories of the runs are, and how they are read."""

    path: str | None = Field(
        None,
        min_length=1,
        max_length=400,
        description="A run's log, with `{condition}` and `{seed}`; this or `files`.",
    )
    files: dict[str, Tries[ProjectPath]] = Field(
        {}, max_length=20_000, description="Run, such as `shaped-s1` -> path of its log, or of the log of each try; this or `path`."
    )
    names: dict[Slug, str] = Field({}, max_length=1_000, description="Condition -> its name in paths and in `where`, when it has another.")
    steps: int = Field(ge=1, lt=2**53, description="Steps that every run was meant to make.")
    where: dict[str, bool | int | float | str] = Field(
        {},
        max_length=20,
        description="Of `csv`, `jsonl`, `parquet`: what the run's rows hold, such as `{algorithm: ppo, seed: 42}`; of `summary`, what its "
        "object holds. Texts may have `{condition}` and `{seed}`.",
    )
    steps_done: str | None = Field(None, description="Of `summary`: key of the last logged step.")
    state: str | None = Field(
        None,
        min_length=1,
        max_length=300,
        description="Of `summary`, `jsonl`, `csv`, `parquet`: key or column of how the run ended: `finished`, `crashed` or `running`.",
    )
    preset: Preset | None = Field(None, description=_PRESET)
    metrics: dict[str, MetricUse] = Field(
        {},
        max_length=500,
        description="octavo's metric -> the log's column, {column: ..., unit: ...}, or of `summary` {last: key} and the like.",
    )
    unavailable: tuple[str, ...] = Field((), max_length=100, description="Metrics that the source does not have; the page says so.")
    entity: str | None = Field(None, max_length=200, description="Of `wandb`: the entity; `octavo compile --update` fetches its runs.")
    project: str | None = Field(None, max_length=200, description="Of `wandb`: the project of the runs.")
    ids: dict[str, Tries[str]] = Field(
        {}, max_length=20_000, description="Of `wandb`: run -> id of its W&B run, or of the one of each try; names are not unique there."
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

    reward: str = Field("", max_length=200, description="The reward of the runs, in words. Only equal words may be compared by reward.")


class OutsideSpec(Spec):
    """An experiment whose runs octavo does not train itself. What is REFUSED is never written; these sections stand for nothing."""

    REFUSED: ClassVar[tuple[str, ...]] = (
        *("model", "data", "prompt", "rewards", "preflight", "evaluation", "retries", "resources", "tracking"),
        *("parent", "changes", "hypothesis", "actions", "contingency"),
    )
    """Keys that have no place in it."""
    REFUSED_IN_CONDITIONS: ClassVar[tuple[str, ...]] = ("data", "model")
    conditions: dict[Slug, ImportedCondition] = Field(  # type: ignore[assignment]  # a narrower kind of condition
        max_length=1_000, min_length=1, description="By name, in the order of tables and colours."
    )
    model: Model = Field(default_factory=lambda: Model(base="(none)"), description="octavo loads none.")
    data: Data = Field(default_factory=lambda: Data(train=TrainData(path="none")), description="octavo reads none.")


class ImportedSpec(OutsideSpec):
    """An experiment of imported runs."""

    REFUSED = (*OutsideSpec.REFUSED, "train", "profiles")
    REFUSED_IN_CONDITIONS = ("train", "data", "model")
    runs: Runs = Field(description="Where the runs come from.")
    train: dict[str, Any] = Field({}, description="Nothing is trained.")


class CommandHistory(LogReading):
    """The history that the program writes into its folder, and how it is read. Keys are those of `runs.import`."""

    format: Literal["trainer_state", "wandb_file", "tensorboard", "jsonl", "csv", "parquet", "text", "console"] = Field(
        description="What the log is."
    )
    file: ProjectPath = Field(description="Path of the log below the program's folder `{out}`.")
    preset: Preset | None = Field(None, description=_PRESET)
    metrics: dict[str, MetricUse] = Field({}, max_length=500, description="octavo's metric -> the log's column.")
    unavailable: tuple[str, ...] = Field((), max_length=100, description="Metrics that the program does not log; the page says so.")


class CommandTrain(Section):
    """A program that trains one run."""

    algorithm: Literal["command"] = Field(description="The author's own program.")
    command: tuple[str, ...] = Field(
        min_length=1,
        max_length=100,
        description="Program and arguments, no shell. `{card}`, `{out}`, `{seed}`, `{steps}` stand for values.",
    )
    code: tuple[ProjectPath, ...] = Field(min_length=1, max_length=1_000, description="Files that decide the result; the card pins them.")
    max_steps: int = Field(ge=1, description="Steps of a run; the history must reach them.")
    settings: dict[str, Any] = Field({}, description="What the program reads from its card, under `command.settings`.")
    history: CommandHistory = Field(description="What the program writes.")


class CommandSpec(OutsideSpec):
    """An experiment whose runs a program of the author trains."""

    train: CommandTrain = Field(description="The program.")  # type: ignore[assignment]  # known keys instead of an open map
