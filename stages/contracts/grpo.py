"""GRPO settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.contracts.grouped import GroupedSettings


class GrpoSettings(GroupedSettings):
    """`algorithm: grpo`, the default. Names and meanings are those of TRL's GRPOConfig."""

    algorithm: Literal["grpo"] = Field("grpo", description="Training algorithm.")
    num_generations: int = Field(8, ge=2, description="Completions per prompt: the group that GRPO compares.")
    beta: float = Field(0.0, ge=0, description="Weight of the KL penalty to the reference model.")
    epsilon: float = Field(0.2, gt=0, description="Clip range of the policy ratio.")
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = Field("dapo", description="How token losses are normalised.")
    scale_rewards: Literal["group", "batch", "none"] = Field("group", description="What the advantage is divided by.")
