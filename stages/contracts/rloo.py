"""RLOO settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.contracts.grouped import GroupedSettings


class RlooSettings(GroupedSettings):
    """`algorithm: rloo`: REINFORCE with the mean reward of the prompt's other completions as baseline (Ahmadian et al. 2024).
    Names and meanings are those of TRL's RLOOConfig."""

    algorithm: Literal["rloo"] = Field(description="Training algorithm.")
    num_generations: int = Field(4, ge=2, description="Completions per prompt: each is compared with the mean of the others.")
    beta: float = Field(0.05, ge=0, description="Weight of a completion's KL to the reference model, taken off its reward.")
    epsilon: float = Field(0.2, gt=0, description="Clip range of the policy ratio of a whole completion.")
    normalize_advantages: bool = Field(False, description="Divide advantages by their standard deviation over the batch.")
