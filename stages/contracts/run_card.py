"""`<run>/train.card.json`: all that changes the result of one run, and nothing else."""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from stages.contracts.artifact import Artifact
from stages.contracts.code import Version
from stages.contracts.model_card import DataCard, ModelCard
from stages.contracts.reward_card import RewardCard
from stages.contracts.rule_card import StopCard
from stages.contracts.train_settings import TrainSettings

S = TypeVar("S", bound=TrainSettings)


class TrainCard(Artifact, Generic[S]):
    """One condition with one seed. `train` holds the settings of its algorithm: `TrainCard[GrpoSettings]` in the stage
    that trains with GRPO, `AnyTrainCard` (stages/contracts/algorithms.py) where any may come."""

    SCHEMA: ClassVar[str] = "octavo.train_card/1"

    experiment: str
    condition: str
    seed: int
    null_control: bool
    """A null control is trained without a signal on purpose: preflight never refuses it."""
    model: ModelCard
    data: DataCard
    reward: RewardCard | None = Field(None, exclude_if=lambda value: value is None)
    """Null for supervised fine-tuning, which has none."""
    train: S
    stop: StopCard | None = Field(None, exclude_if=lambda value: value is None)
    """When the run is stopped before its end; null: never."""
    device: Literal["cpu", "cuda"]
    gpus: int = Field(1, ge=1, exclude_if=lambda value: value == 1)
    """Devices that train the run together, each with a batch of its own: the effective batch is so many times as large."""
    versions: dict[str, str]
    """Library versions the result depends on, from the project's constraints.txt."""
    code: dict[str, Version]
