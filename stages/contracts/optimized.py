"""Settings of algorithms that train by gradient steps here: optimizer, checkpoints and guards, whatever the loss."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.contracts.train_settings import Guards, TrainSettings


class OptimizedSettings(TrainSettings):
    """Optimizer, checkpoints and guards. Names and meanings are those of transformers' TrainingArguments."""

    learning_rate: float = Field(gt=0, description="Peak learning rate of AdamW.")
    lr_scheduler_type: Literal["constant", "linear", "cosine", "constant_with_warmup"] = Field("constant", description="Schedule.")
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient clipping norm.")
    bf16: bool = Field(False, description="Train in bfloat16.")
    gradient_checkpointing: bool = Field(False, description="Recompute activations to save memory.")
    save_steps: int = Field(20, ge=1, description="Steps between checkpoints, from which a killed run resumes.")
    guards: Guards = Field(default_factory=Guards, description="What is done about non-finite gradients.")
