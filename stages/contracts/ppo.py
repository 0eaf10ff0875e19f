"""PPO settings. Names are those of TRL's old PPOTrainer (last in TRL 0.11), whose experiments people want to repeat."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.contracts.artifact import Section
from stages.contracts.training import MOST_STEPS, OwnGenerationSettings, SampledSettings


class KlSettings(Section):
    """The penalty on the KL to the reference model, taken off the reward of each token."""

    controller: Literal["adaptive", "fixed"] = Field("adaptive", description="adaptive: it follows the measured KL (Ziegler et al. 2019).")
    init_kl_coef: float = Field(0.2, ge=0, description="Coefficient at the start.")
    target: float = Field(6.0, gt=0, description="adaptive: KL of a whole completion to aim at, in nats.")
    horizon: int = Field(10_000, ge=1, description="adaptive: completions over which the coefficient follows; smaller is faster.")
    estimator: Literal["k1", "k3"] = Field("k1", description="k1: unbiased, may be negative. k3: less variance (Schulman 2020).")


class PpoSettings(SampledSettings):
    """`algorithm: ppo`: clipped policy and value losses with a value head on the policy, one completion a prompt, octavo's own trainer.
    A step is one update: sample a batch, score it, then `ppo_epochs` passes over it in minibatches."""

    algorithm: Literal["ppo"] = Field(description="Training algorithm.")
    max_steps: int = Field(ge=1, le=MOST_STEPS, description="Updates of a run; each samples one batch.")
    batch_size: int = Field(64, ge=1, description="Completions an update.")
    mini_batch_size: int = Field(16, ge=1, description="Completions of one forward and backward pass.")
    gradient_accumulation_steps: int = Field(1, ge=1, description="Minibatches of one optimizer step.")
    ppo_epochs: int = Field(4, ge=1, description="Passes over each batch.")
    cliprange: float = Field(0.2, gt=0, lt=1, description="Clip range of the policy ratio.")
    cliprange_value: float = Field(0.2, gt=0, description="Clip range of the change of a value, in units of the reward.")
    vf_coef: float = Field(0.1, ge=0, description="Weight of the value loss.")
    gamma: float = Field(1.0, gt=0, le=1, description="Discount a token.")
    lam: float = Field(0.95, ge=0, le=1, description="Lambda of generalised advantage estimation (GAE).")
    kl: KlSettings = Field(default_factory=KlSettings, description="Penalty on the KL to the reference model.")
    target_kl: float | None = Field(
        None, gt=0, description="An update ends once the old and the new policy are 1.5 times this apart (nats a token)."
    )
    whiten_rewards: bool = Field(False, description="Divide token rewards by their standard deviation over the batch.")
    scoring_temperature: float | None = Field(
        None, gt=0, description="Temperature in ratios and KL; not given: that of sampling. TRL 0.11 used 1.0."
    )

    generation: OwnGenerationSettings | None = Field(None, description="What samples the completions; not given: by the device.")

    @property
    def microbatch_key(self) -> str:
        return "mini_batch_size"

    @property
    def prompts_per_batch(self) -> int:
        return self.batch_size

    @property
    def scored_at(self) -> float:
        """Temperature of the probabilities in ratios and KL."""
        return self.scoring_temperature or self.temperature
