"""`train: {algorithm: command}`: the author's own program trains, octavo runs it and reads the history that it writes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from compiler.language.spec_imports import MetricUse, OutsideSpec
from stages.contracts.artifact import Section
from stages.contracts.import_card import LogReading
from stages.contracts.names import ProjectPath

REFUSED = {
    "model": "the program loads its own; write what it needs under `train.settings`",
    "data": "the program reads its own; write what it needs under `train.settings`",
    "rewards": "the program scores; `reward` of a condition says in words what with",
    "preflight": "only the program can sample",
    "evaluation": "octavo cannot load what the program trains, so claims are about the history that it writes",
    "resources": "octavo cannot place the program on a device",
    "parent": "settings of a program are its own, so octavo cannot compare them",
    "changes": "settings of a program are its own, so octavo cannot compare them",
    "hypothesis": "it belongs to a change of a parent",
    "retries": "octavo cannot change what the program does; the next `dvc repro` starts it again in its folder",
    "actions": "an action is a change of training settings",
    "contingency": "a plan is a change of training settings",
}
"""Keys that have no place beside `train: {algorithm: command}`, and why."""


class CommandHistory(LogReading):
    """The history that the program writes into its folder, and how it is read. Keys are those of `runs.import`."""

    format: Literal["trainer_state", "wandb_file", "tensorboard", "jsonl", "csv", "text"] = Field(description="What the log is.")
    file: ProjectPath = Field(description="Path of the log below the program's folder `{out}`.")
    metrics: dict[str, MetricUse] = Field(min_length=1, max_length=500, description="octavo's metric -> the log's column.")
    unavailable: tuple[str, ...] = Field((), max_length=100, description="Metrics that the program does not log; the page says so.")


class CommandTrain(Section):
    """A program that trains one run."""

    algorithm: Literal["command"] = Field(description="The author's own program.")
    command: tuple[str, ...] = Field(
        min_length=1,
        max_length=100,
        description="Program and arguments, without a shell. Whole arguments `{card}`, `{out}`, `{seed}`, `{steps}` stand for values.",
    )
    code: tuple[ProjectPath, ...] = Field(min_length=1, max_length=1_000, description="Files that decide the result; the card pins them.")
    max_steps: int = Field(ge=1, description="Steps of a run; the history must reach them.")
    settings: dict[str, Any] = Field({}, description="What the program reads from its card, under `command.settings`.")
    history: CommandHistory = Field(description="What the program writes.")


class CommandSpec(OutsideSpec):
    """An experiment whose runs a program of the author trains."""

    train: CommandTrain = Field(description="The program.")  # type: ignore[assignment]  # known keys instead of an open map
