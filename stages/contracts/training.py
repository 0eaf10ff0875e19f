"""Settings of training: what all algorithms share, what samples completions, GRPO and RLOO, which compare those of one prompt, and SFT.

Names, meanings and units are those of transformers and TRL, so that their documentation stays true; TRL's own defaults are replaced by the
explicit ones here. PPO has a module of its own. `stages/contracts/algorithms.py` knows all.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.contracts.artifact import Section, later
from stages.contracts.stops import EarlyStop


class Guards(Section):
    """What is done about non-finite gradients and logits during training."""

    skip_nonfinite_gradients: bool = Field(True, description="Skip an optimizer step whose gradient is not finite; it is counted.")
    stop_after_skipped: int = Field(10, ge=1, description="Stop the attempt after this number of skipped steps in a row.")
    remove_invalid_logits: bool = later(
        False,
        description="Replace logits that are not finite before sampling; `invalid_logits` counts them.",
    )


class TrainSettings(Section):
    """Keys that every algorithm has. `algorithm` is narrowed to its own name by each."""

    algorithm: str
    max_steps: int = Field(ge=1, description="Optimizer steps of a run.")
    early_stop: EarlyStop | None = Field(None, exclude=True, description="Stops a run that learns no more; never a null control.")
    """Not on cards: there it is one of the rules of `stop`."""

    @property
    def group_size(self) -> int:
        """Completions of one prompt that are compared with each other; 1 when none are."""
        return 1

    @property
    def microbatch_key(self) -> str | None:
        """The key that says how many completions pass through the model at once, whose half with twice `gradient_accumulation_steps`
        makes the same optimizer step; None when there is none."""
        return None

    @property
    def prompts_per_batch(self) -> int:
        """Different prompts in one batch of completions; 0 when no completions are sampled."""
        return 0


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
    deterministic: bool = later(
        True, description="On a GPU: the same seed gives the same run, bit by bit; false where an operation has no such kernel."
    )
    guards: Guards = Field(default_factory=Guards, description="What is done about non-finite gradients.")


class SampledSettings(OptimizedSettings):
    """Sampling beside the optimizer. Names and meanings are those of transformers and TRL."""

    max_completion_length: int = Field(ge=1, description="Longest completion, in tokens; longer ones are cut and count as truncated.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling mass.")


_ENGINE = (
    "auto: compiled on a GPU, transformers on a CPU. compiled: fixed shapes, one token recorded once and replayed, from a copy of the "
    "model with the adapter merged."
)


class VllmSettings(Section):
    """`train.generation.vllm`: where vLLM runs. Names and meanings are those of TRL, without its prefix `vllm_`."""

    mode: Literal["colocate", "server"] = Field("colocate", description="On the GPUs that train, or on a server started by the user.")
    gpu_memory_utilization: float = Field(0.3, gt=0, le=1, description="colocate: share of each GPU's memory that vLLM takes.")
    tensor_parallel_size: int = Field(1, ge=1, description="colocate: GPUs that share one copy of the model.")
    max_model_length: int | None = Field(None, ge=1, description="colocate: tokens of prompt and completion; not given: the model's own.")
    server_host: str = Field("127.0.0.1", description="server: host of `trl vllm-serve`.")
    server_port: int = Field(8000, ge=1, le=65535, description="server: its port.")


class OwnGenerationSettings(Section):
    """`train.generation` where octavo's own trainer samples (PPO). Left out, a GPU takes `compiled` and a CPU `transformers`."""

    engine: Literal["auto", "transformers", "compiled"] = Field("auto", description=_ENGINE)
    bucket: int = Field(64, ge=8, description="compiled: prompts are padded to a multiple of these tokens, so that few shapes occur.")
    torch_compile: bool = Field(True, description="compiled: compile the forward pass too; false only records its kernels.")


class GenerationSettings(OwnGenerationSettings):
    """`train.generation`: what samples the completions. Left out, a GPU takes `compiled` and a CPU `transformers`."""

    engine: Literal["auto", "transformers", "compiled", "continuous_batching", "vllm"] = Field(  # type: ignore[assignment]
        "auto", description=_ENGINE
    )
    vllm: VllmSettings | None = Field(None, description="vllm: where it runs.")


class GroupedSettings(SampledSettings):
    """What the two share."""

    per_device_train_batch_size: int = Field(64, ge=1, description="Completions per device and micro-step.")
    gradient_accumulation_steps: int = Field(1, ge=1, description="Micro-steps per optimizer step.")
    num_generations: int = Field(8, ge=2, description="Completions per prompt: the group whose rewards are compared.")
    num_iterations: int = Field(1, ge=1, description="Optimizer passes over each generation batch (mu in the GRPO paper).")
    beta: float = Field(0.0, ge=0, description="Weight of the KL penalty to the reference model.")
    generation: GenerationSettings | None = Field(None, description="What samples the completions; not given: by the device.")

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


class GrpoSettings(GroupedSettings):
    """`algorithm: grpo`, the default. Names and meanings are those of TRL's GRPOConfig."""

    algorithm: Literal["grpo"] = Field("grpo", description="Training algorithm.")
    num_generations: int = Field(8, ge=2, description="Completions per prompt: the group that GRPO compares.")
    beta: float = Field(0.0, ge=0, description="Weight of the KL penalty to the reference model.")
    epsilon: float = Field(0.2, gt=0, description="Clip range of the policy ratio.")
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = Field("dapo", description="How token losses are normalised.")
    scale_rewards: Literal["group", "batch", "none"] = Field("group", description="What the advantage is divided by.")


class RlooSettings(GroupedSettings):
    """`algorithm: rloo`: REINFORCE with the mean reward of the prompt's other completions as baseline (Ahmadian et al. 2024).
    Names and meanings are those of TRL's RLOOConfig."""

    algorithm: Literal["rloo"] = Field(description="Training algorithm.")
    num_generations: int = Field(4, ge=2, description="Completions per prompt: each is compared with the mean of the others.")
    beta: float = Field(0.05, ge=0, description="Weight of a completion's KL to the reference model, taken off its reward.")
    epsilon: float = Field(0.2, gt=0, description="Clip range of the policy ratio of a whole completion.")
    normalize_advantages: bool = Field(False, description="Divide advantages by their standard deviation over the batch.")


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
