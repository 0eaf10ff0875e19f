"""What TRL calls octavo's metrics in its logs: its names are what people have at hand when they map an import."""

from __future__ import annotations

TRL_NAMES = {
    "frac_reward_zero_std": "zero_signal_share",
    "completions/clipped_ratio": "truncated",
    "completions/mean_length": "completion_tokens",
    "step_time": "step_seconds",
    "clip_ratio/region_mean": "policy.clipfrac",
    "objective/kl": "objective.kl",
    "objective/entropy": "objective.entropy",
    "objective/scores": "objective.scores",
    "objective/non_score_reward": "objective.non_score_reward",
    "objective/rlhf_reward": "objective.rlhf_reward",
    "policy/approxkl_avg": "policy.approxkl",
    "policy/clipfrac_avg": "policy.clipfrac",
    "loss/policy_avg": "loss.policy",
    "loss/value_avg": "loss.value",
    "val/clipfrac_avg": "value.clipfrac",
    "val/ratio": "policy.ratio",
}
"""TRL's name -> octavo's metric, of GRPO, RLOO, SFT and PPO; names that are the same in both (`reward`, `kl`, `loss`) are left out."""


def meant_by(name: str) -> str | None:
    """octavo's metric of a name in a log of TRL, with or without `train/` before it."""
    plain = name.removeprefix("train/")
    found = TRL_NAMES.get(plain)
    if found is None and plain.startswith("rewards/") and plain.endswith("/mean"):
        function = plain.removeprefix("rewards").removesuffix("/mean").removeprefix("/").lower()
        gate = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in function)
        return f"gate.{gate}.score" if gate else None
    return found
