"""`<run>/train.card.json`: all that changes the result of one run, and nothing else."""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, TypeVar

from stages.contracts.artifact import Artifact, Section, later
from stages.contracts.code import Version
from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.reward import Reward
from stages.contracts.stops import StopRules
from stages.contracts.training import TrainSettings

S = TypeVar("S", bound=TrainSettings)


class TrainCard(Section, Artifact, Generic[S]):
    """One condition with one seed. `train` holds the settings of its algorithm: `TrainCard[GrpoSettings]` in the stage
    that trains with GRPO, `AnyTrainCard` (stages/contracts/algorithms.py) where any may come."""

    SCHEMA: ClassVar[str] = "octavo.train_card/1"

    experiment: str
    condition: str
    seed: int
    null_control: bool
    """A null control is trained without a signal on purpose: preflight never refuses it."""
    model: ModelRef
    data: DatasetRef
    reward: Reward | None = None
    """Null for supervised fine-tuning, which has none."""
    train: S
    stop: StopRules | None = None
    """When the run is stopped before its end; null: never."""
    device: Literal["cpu", "cuda"]
    gpus: int = later(1, ge=1)
    """Devices that train the run together, each with a batch of its own: the effective batch grows with their number."""
    versions: dict[str, str]
    """Library versions the result depends on, from the project's constraints.txt."""
    code: dict[str, Version]
