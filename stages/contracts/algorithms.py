"""All training algorithms, for those who read any train card: the compiler and the pages. Stages import their own algorithm only."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator

from stages.contracts.grpo import GrpoSettings
from stages.contracts.ppo import PpoSettings
from stages.contracts.rloo import RlooSettings
from stages.contracts.run_card import TrainCard
from stages.contracts.sft import SftSettings
from stages.contracts.train_settings import TrainSettings

DEFAULT = "grpo"
SFT = "sft"
"""The one algorithm without a reward: it imitates gold answers."""
ALGORITHMS: dict[str, type[TrainSettings]] = {"grpo": GrpoSettings, "rloo": RlooSettings, "ppo": PpoSettings, SFT: SftSettings}
"""Algorithm -> its settings, in the order of the reference."""

Settings = GrpoSettings | RlooSettings | PpoSettings | SftSettings
AnyTrainCard = TrainCard[Annotated[Settings, Discriminator("algorithm")]]


STAGES = {"grpo": "stages.train.trl", "rloo": "stages.train.trl", "ppo": "stages.train.ppo", SFT: "stages.train.supervised"}
"""Algorithm -> module of the stage that trains with it."""
