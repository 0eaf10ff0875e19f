"""GRPO settings. Names, meanings and units are those of TRL's GRPOConfig, so that its documentation stays true."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.contracts.artifact import Frozen


class Guards(Frozen):
    """What is done about non-finite gradients during training."""

    skip_nonfinite_gradients: bool = Field(True, description="Skip an optimizer step whose gradient is not finite; it is counted.")
    stop_after_skipped: int = Field(10, ge=1, description="Stop the attempt after so many skipped steps in a row.")


class GrpoSettings(Frozen):
    """TRL GRPOConfig fields that octavo passes on; TRL's own defaults are replaced by the explicit ones here."""

    algorithm: Literal["grpo"] = Field("grpo", description="Training algorithm.")
    max_steps: int = Field(ge=1, description="Optimizer steps of a run.")
    learning_rate: float = Field(gt=0, description="Peak learning rate of AdamW.")
    lr_scheduler_type: Literal["constant", "linear", "cosine", "constant_with_warmup"] = Field("constant", description="Schedule.")
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up.")
    per_device_train_batch_size: int = Field(64, ge=1, description="Completions per device and micro-step.")
    gradient_accumulation_steps: int = Field(1, ge=1, description="Micro-steps per optimizer step.")
    num_generations: int = Field(8, ge=2, description="Completions per prompt: the group that GRPO compares.")
    num_iterations: int = Field(1, ge=1, description="Optimizer passes over each generation batch (mu in the GRPO paper).")
    max_completion_length: int = Field(ge=1, description="Longest completion, in tokens; longer ones are cut and count as truncated.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling mass.")
    beta: float = Field(0.0, ge=0, description="Weight of the KL penalty to the reference model.")
    epsilon: float = Field(0.2, gt=0, description="Clip range of the policy ratio.")
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = Field("dapo", description="How token losses are normalised.")
    scale_rewards: Literal["group", "batch", "none"] = Field("group", description="What the advantage is divided by.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient clipping norm.")
    bf16: bool = Field(False, description="Train in bfloat16.")
    gradient_checkpointing: bool = Field(False, description="Recompute activations to save memory.")
    save_steps: int = Field(20, ge=1, description="Steps between checkpoints, from which a killed run resumes.")
    guards: Guards = Field(default_factory=Guards, description="What is done about non-finite gradients.")

    @property
    def generation_batch_size(self) -> int:
        """Completions per generation on one device: must hold whole groups."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps
