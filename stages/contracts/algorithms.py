"""All training algorithms, for those who read any train card: the compiler and the pages. Stages import their own algorithm only.

A new algorithm is a file of settings beside this one, a row here, and a stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Discriminator

from stages.contracts.ppo import PpoSettings
from stages.contracts.run_card import TrainCard
from stages.contracts.training import GrpoSettings, RlooSettings, SftSettings, TrainSettings


@dataclass(frozen=True)
class Algorithm:
    """A row of the table. Which history metrics its runs log stands beside each metric (stages/contracts/history.csv)."""

    settings: type[TrainSettings]
    stage: str
    """Module of the stage that trains with it."""
    profile: str
    """Its health profile (compiler/language/health_profiles.py)."""
    curves: tuple[str, ...]
    """History metrics drawn on the page, in order; `kl` only where it is logged."""
    is_rewarded: bool = True
    """Whether it learns from a reward; else it imitates gold answers."""
    logs: str = ""
    """Algorithm whose history metrics its runs log, when none of them name it (stages/contracts/history.csv)."""


_GROUPED = ("reward", "zero_signal_share", "truncated", "completion_tokens", "entropy", "grad_norm", "kl")
_PPO = (
    *("reward", "objective.rlhf_reward", "objective.kl", "kl", "kl_coef", "entropy", "loss.policy", "loss.value", "loss"),
    *("value.explained_variance", "value.error", "value.clipfrac", "advantages", "policy.approxkl", "policy.clipfrac"),
    *("truncated", "completion_tokens", "grad_norm"),
)
_SFT = ("loss", "mean_token_accuracy", "entropy", "grad_norm")

DEFAULT = "grpo"
SFT = "sft"
ALGORITHMS: dict[str, Algorithm] = {
    "grpo": Algorithm(GrpoSettings, "stages.train.trl", "grpo-default", _GROUPED),
    "rloo": Algorithm(RlooSettings, "stages.train.trl", "grpo-default", _GROUPED),
    "ppo": Algorithm(PpoSettings, "stages.train.ppo", "ppo-default", _PPO),
    SFT: Algorithm(SftSettings, "stages.train.supervised", "sft-default", _SFT, is_rewarded=False),
}
"""By name, in the order of the reference."""

if TYPE_CHECKING:
    Settings = TrainSettings
    AnyTrainCard = TrainCard[TrainSettings]
else:
    Settings = Union[tuple(row.settings for row in ALGORITHMS.values())]  # noqa: UP007  # of as many as the table has
    AnyTrainCard = TrainCard[Annotated[Settings, Discriminator("algorithm")]]
