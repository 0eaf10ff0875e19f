"""Settings of training: what all algorithms share, what samples completions, GRPO and RLOO, which compare those of one prompt, and SFT.

Names, meanings and units are those of transformers and TRL, so that their documentation stays true; TRL's own defaults are replaced by the
explicit ones here. PPO has a module of its own. `stages/contracts/algorithms.py` knows all.
"""

from __future__ import annotations

from math import ceil
from typing import Any, Literal, get_args

from pydantic import Field

from stages.contracts.artifact import Section, later
from stages.contracts.stops import EarlyStop

MOST_STEPS = 10_000_000
"""Of a run: more is a slip of the pen, and would fill a disk with its history."""


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
    max_steps: int = Field(ge=1, le=MOST_STEPS, description="Optimizer steps of a run.")
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
    warmup_ratio: float = later(0.0, ge=0, lt=1, description="Warm-up as a share of `max_steps`, in place of `warmup_steps`.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay.")
    adam_beta1: float = later(0.9, ge=0, lt=1, description="AdamW: decay of the mean of gradients.")
    adam_beta2: float = later(0.999, ge=0, lt=1, description="AdamW: decay of the mean of squared gradients.")
    adam_epsilon: float = later(1e-8, gt=0, description="AdamW: added to the divisor.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient clipping norm.")
    bf16: bool = Field(False, description="Train in bfloat16.")
    gradient_checkpointing: bool = Field(False, description="Recompute activations to save memory.")
    save_steps: int = Field(20, ge=1, description="Steps between checkpoints, from which a killed run resumes.")
    deterministic: bool = later(
        True, description="On a GPU: the same seed gives the same run, bit by bit; false where an operation has no such kernel."
    )
    guards: Guards = Field(default_factory=Guards, description="What is done about non-finite gradients.")

    @property
    def warmup(self) -> int:
        """Steps of warm-up, rounded up as transformers does."""
        return ceil(self.max_steps * self.warmup_ratio) or self.warmup_steps


Plain = Literal["adamw_torch_fused", "adamw_torch", "adafactor", "sgd", "adagrad", "rmsprop"]
Bitsandbytes = Literal["adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "lion_8bit", "paged_lion_8bit", "ademamix_8bit"]


class TrlSettings(OptimizedSettings):
    """What trainers of TRL have beside our own. A key that no card names has TRL's own default."""

    num_train_epochs: float | None = Field(
        None, gt=0, exclude=True, description="Passes over the training prompts; `octavo compile` makes `max_steps` of it."
    )
    """Not on cards: there it is `max_steps`."""
    optim: Literal[Plain, Bitsandbytes] = later(
        "adamw_torch_fused", description="Optimizer; those in 8 bits, and paged ones, are from bitsandbytes."
    )
    trl: dict[str, Any] = Field(
        {}, description="Other keys of TRL's configuration, passed on as they are: octavo checks name and type, and has not audited them."
    )

    @property
    def uses_bitsandbytes(self) -> bool:
        """Whether the optimizer is one of bitsandbytes, an extra."""
        return self.optim in get_args(Bitsandbytes)

    def steps(self, epochs: float, rows: int, devices: int) -> int:
        """Optimizer steps of `num_train_epochs` passes over `rows` prompts, as TRL counts them."""
        raise NotImplementedError


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


class Sampler(Section):
    """Further limits on which tokens are sampled. Training, and preflight before it, sample with them; log-probabilities and the loss are
    those without."""

    top_k: int = later(0, ge=0, description="Sample from this number of likeliest tokens; 0: from all.")
    min_p: float | None = Field(None, gt=0, le=1, description="Leave out tokens below this share of the likeliest one's probability.")
    repetition_penalty: float = later(1.0, gt=0, description="Divides the logits of tokens that prompt or completion hold; 1: none.")


class GroupedSettings(SampledSettings, Sampler, TrlSettings):
    """What the two share."""

    per_device_train_batch_size: int = Field(64, ge=1, description="Completions per device and micro-step.")
    gradient_accumulation_steps: int = Field(1, ge=1, description="Micro-steps per optimizer step.")
    num_generations: int = Field(8, ge=2, description="Completions per prompt: the group whose rewards are compared.")
    num_iterations: int = Field(1, ge=1, description="Optimizer passes over each generation batch (mu in the GRPO paper).")
    steps_per_generation: int | None = Field(
        None, ge=1, description="Micro-steps that one generation batch feeds; not given: `gradient_accumulation_steps`."
    )
    shuffle_dataset: bool = later(True, description="Shuffle the prompts by the seed; false: in the order of the file.")
    disable_dropout: bool = later(False, description="Train without the model's own dropout.")
    mask_truncated_completions: bool = later(False, description="Leave truncated completions out of the loss.")
    beta: float = Field(0.0, ge=0, description="Weight of the KL penalty to the reference model.")
    sync_ref_model: bool = later(False, description="Move the reference model towards the policy; needs all weights and a `beta`.")
    ref_model_mixup_alpha: float = later(0.6, gt=0, le=1, description="sync_ref_model: share of the policy that the reference takes on.")
    ref_model_sync_steps: int = later(512, ge=1, description="sync_ref_model: steps between two moves.")
    epsilon_high: float | None = Field(None, gt=0, description="Upper clip range of the policy ratio; not given: `epsilon`.")
    generation: GenerationSettings | None = Field(None, description="What samples the completions; not given: by the device.")

    @property
    def generation_batch_size(self) -> int:
        """Completions per generation on one device: must hold whole groups."""
        return self.per_device_train_batch_size * (self.steps_per_generation or self.gradient_accumulation_steps)

    @property
    def group_size(self) -> int:
        return self.num_generations

    @property
    def microbatch_key(self) -> str:
        return "per_device_train_batch_size"

    @property
    def prompts_per_batch(self) -> int:
        return self.generation_batch_size // self.num_generations

    @property
    def micro_steps(self) -> int:
        """Micro-steps from one sampling of completions to the next."""
        return (self.steps_per_generation or self.gradient_accumulation_steps) * self.num_iterations

    def steps(self, epochs: float, rows: int, devices: int) -> int:
        batches = rows * self.num_generations // (self.generation_batch_size * devices)  # prompts of a last, smaller batch are not used
        return ceil(epochs * max(1, ceil(batches * self.micro_steps / self.gradient_accumulation_steps)))


class GrpoSettings(GroupedSettings):
    """`algorithm: grpo`, the default. Names and meanings are those of TRL's GRPOConfig."""

    algorithm: Literal["grpo"] = Field("grpo", description="Training algorithm.")
    num_generations: int = Field(8, ge=2, description="Completions per prompt: the group that GRPO compares.")
    beta: float = Field(0.0, ge=0, description="Weight of the KL penalty to the reference model.")
    epsilon: float = Field(0.2, gt=0, description="Clip range of the policy ratio.")
    delta: float | None = Field(None, gt=1, description="Upper bound of the ratio where the clip does not act (INTELLECT-2).")
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"] = Field(
        "dapo", description="How token losses are clipped and normalised."
    )
    sapo_temperature_neg: float = later(1.05, gt=0, description="sapo: temperature of the soft clip where the advantage is negative.")
    sapo_temperature_pos: float = later(1.0, gt=0, description="sapo: the same where it is positive.")
    vespo_k_pos: float = later(2.0, gt=0, description="vespo: exponent of the weight where the advantage is positive.")
    vespo_lambda_pos: float = later(3.0, gt=0, description="vespo: its decay.")
    vespo_k_neg: float = later(3.0, gt=0, description="vespo: exponent of the weight where the advantage is negative.")
    vespo_lambda_neg: float = later(2.0, gt=0, description="vespo: its decay.")
    scale_rewards: Literal["group", "batch", "none"] = Field("group", description="What the advantage is divided by.")
    importance_sampling_level: Literal["token", "sequence"] = later("token", description="Ratio of each token, or of the whole (GSPO).")
    off_policy_mask_threshold: float | None = Field(
        None, gt=0, description="Leave out completions with a negative advantage whose old and new policy are further apart (nats a token)."
    )
    use_bias_correction_kl: bool = later(True, description="Weight the KL penalty by the ratio, which makes its gradient unbiased.")
    top_entropy_quantile: float = later(1.0, ge=0, le=1, description="Share of tokens, those of highest entropy, that the loss is over.")
    entropy_coef: float = later(0.0, description="Weight of a bonus for entropy.")
    use_adaptive_entropy: bool = later(False, description="Raise and lower `entropy_coef` towards `entropy_target`.")
    entropy_coef_min: float = later(0.0, description="use_adaptive_entropy: least coefficient.")
    entropy_coef_max: float = later(1.0, description="use_adaptive_entropy: largest coefficient.")
    entropy_coef_delta: float = later(0.005, gt=0, description="use_adaptive_entropy: change a step.")
    entropy_target: float = later(0.2, ge=0, description="use_adaptive_entropy: entropy to keep, in nats a token.")
    cast_lm_head_to_fp32: bool = later(False, description="Compute logits in float32.")


class RlooSettings(GroupedSettings):
    """`algorithm: rloo`: REINFORCE with the mean reward of the prompt's other completions as baseline (Ahmadian et al. 2024).
    Names and meanings are those of TRL's RLOOConfig."""

    algorithm: Literal["rloo"] = Field(description="Training algorithm.")
    num_generations: int = Field(4, ge=2, description="Completions per prompt: each is compared with the mean of the others.")
    beta: float = Field(0.05, ge=0, description="Weight of a completion's KL to the reference model, taken off its reward.")
    epsilon: float = Field(0.2, gt=0, description="Clip range of the policy ratio of a whole completion.")
    normalize_advantages: bool = Field(False, description="Divide advantages by their standard deviation over the batch.")
    reward_clip_range: tuple[float, ...] | None = Field(
        None, min_length=2, max_length=2, description="Bounds that rewards are clipped to, such as [-1, 1]."
    )


class SftSettings(TrlSettings):
    """`algorithm: sft`: the model is trained on the gold answer of each prompt (the column `data.train.answer`), with the loss on the
    answer's tokens alone. Nothing is sampled and nothing rewarded. Names and meanings are those of TRL's SFTConfig."""

    algorithm: Literal["sft"] = Field(description="Training algorithm.")
    per_device_train_batch_size: int = Field(16, ge=1, description="Pairs of prompt and answer per device and micro-step.")
    gradient_accumulation_steps: int = Field(1, ge=1, description="Micro-steps per optimizer step.")
    max_length: int = Field(1024, ge=2, description="Longest prompt and answer, in tokens with the end of text; a longer one is an error.")

    @property
    def microbatch_key(self) -> str:
        return "per_device_train_batch_size"

    def steps(self, epochs: float, rows: int, devices: int) -> int:
        batches = ceil(rows / (self.per_device_train_batch_size * devices))
        return ceil(epochs * max(1, ceil(batches / self.gradient_accumulation_steps)))
