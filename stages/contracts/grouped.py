"""Settings of algorithms that compare several completions of one prompt and train with TRL: GRPO and RLOO.

Names, meanings and units are those of TRL's GRPOConfig and RLOOConfig, so that its documentation stays true; TRL's own defaults are
replaced by the explicit ones here.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.generation import GenerationSettings
from stages.contracts.sampled import SampledSettings


class GroupedSettings(SampledSettings):
    """What the two share."""

    per_device_train_batch_size: int = Field(64, ge=1, description="Completions per device and micro-step.")
    gradient_accumulation_steps: int = Field(1, ge=1, description="Micro-steps per optimizer step.")
    num_generations: int = Field(8, ge=2, description="Completions per prompt: the group whose rewards are compared.")
    num_iterations: int = Field(1, ge=1, description="Optimizer passes over each generation batch (mu in the GRPO paper).")
    beta: float = Field(0.0, ge=0, description="Weight of the KL penalty to the reference model.")
    generation: GenerationSettings | None = Field(
        None, description="What samples the completions; a good one for the device when left out."
    )

    @property
    def generation_batch_size(self) -> int:
        """Completions per generation on one device: must hold whole groups."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps

    @property
    def group_size(self) -> int:
        return self.num_generations

    @property
    def microbatch_key(self) -> str:
        return "per_device_train_batch_size"

    @property
    def prompts_per_batch(self) -> int:
        return self.generation_batch_size // self.num_generations
