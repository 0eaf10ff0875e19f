"""All training algorithms, for those who read any train card: the compiler and the pages. Stages import their own algorithm only."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator

from stages.contracts.grpo import GrpoSettings
from stages.contracts.ppo import PpoSettings
from stages.contracts.rloo import RlooSettings
from stages.contracts.run_card import TrainCard
from stages.contracts.train_settings import TrainSettings

DEFAULT = "grpo"
ALGORITHMS: dict[str, type[TrainSettings]] = {"grpo": GrpoSettings, "rloo": RlooSettings, "ppo": PpoSettings}
"""Algorithm -> its settings, in the order of the reference. The stage of an algorithm is the module of its name."""

Settings = GrpoSettings | RlooSettings | PpoSettings
AnyTrainCard = TrainCard[Annotated[Settings, Discriminator("algorithm")]]


def stage_of(algorithm: str) -> str:
    """Module of the stage that trains with an algorithm."""
    return f"stages.train.{algorithm}"
