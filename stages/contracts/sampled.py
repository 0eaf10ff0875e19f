"""Settings of algorithms in which the policy learns from completions that it samples: what they share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.contracts.train_settings import Guards, TrainSettings


class SampledSettings(TrainSettings):
    """Sampling, optimizer, checkpoints and guards. Names and meanings are those of transformers' TrainingArguments and TRL."""

    learning_rate: float = Field(gt=0, description="Peak learning rate of AdamW.")
    lr_scheduler_type: Literal["constant", "linear", "cosine", "constant_with_warmup"] = Field("constant", description="Schedule.")
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up.")
    max_completion_length: int = Field(ge=1, description="Longest completion, in tokens; longer ones are cut and count as truncated.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling mass.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient clipping norm.")
    bf16: bool = Field(False, description="Train in bfloat16.")
    gradient_checkpointing: bool = Field(False, description="Recompute activations to save memory.")
    save_steps: int = Field(20, ge=1, description="Steps between checkpoints, from which a killed run resumes.")
    guards: Guards = Field(default_factory=Guards, description="What is done about non-finite gradients.")
