"""SFT settings: supervised fine-tuning on the gold answers of the train prompts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.contracts.training import OptimizedSettings


class SftSettings(OptimizedSettings):
    """`algorithm: sft`: the model is trained on the gold answer of each prompt (the column `data.train.answer`), with the loss on the
    answer's tokens alone. Nothing is sampled and nothing rewarded. Names and meanings are those of TRL's SFTConfig."""

    algorithm: Literal["sft"] = Field(description="Training algorithm.")
    per_device_train_batch_size: int = Field(16, ge=1, description="Pairs of prompt and answer per device and micro-step.")
    gradient_accumulation_steps: int = Field(1, ge=1, description="Micro-steps per optimizer step.")
    max_length: int = Field(1024, ge=2, description="Longest prompt and answer, in tokens with the end of text; a longer one is an error.")

    @property
    def microbatch_key(self) -> str:
        return "per_device_train_batch_size"
