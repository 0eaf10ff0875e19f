"""The arithmetic of PPO. Tensors are (completions, tokens); a mask is 1 on the tokens that count and 0 elsewhere.

Advantages: Schulman et al. 2016 (GAE). Losses: Schulman et al. 2017. KL estimators: Schulman 2020. Controllers: Ziegler et al. 2019.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

STOP_AT = 1.5
"""The rest of an update is left out once the policy moved this many times `target_kl`."""


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the tokens that count; NaN when none does."""
    return (values * mask).sum() / mask.sum()


def whitened(values: Tensor, mask: Tensor, shift: bool = True) -> Tensor:
    """Variance 1 over the tokens that count (divisor n - 1), and mean 0 when `shift`. Fewer than two tokens stay as they are."""
    count = mask.sum()
    if count < 2:
        return values * mask
    mean = masked_mean(values, mask)
    variance = masked_mean((values - mean) ** 2, mask) * count / (count - 1)
    scaled = (values - mean) * torch.rsqrt(variance + 1e-8)
    return (scaled if shift else scaled + mean) * mask


def kl_of_tokens(logps: Tensor, reference: Tensor, mask: Tensor, estimator: Literal["k1", "k3"]) -> Tensor:
    """KL from the policy to the reference, per token in nats, estimated on tokens that the policy sampled."""
    ratio = (reference - logps) * mask
    return (-ratio if estimator == "k1" else torch.expm1(ratio) - ratio) * mask


def token_rewards(scores: Tensor, kl: Tensor, coefficient: float, mask: Tensor) -> Tensor:
    """Minus the KL penalty on every token, plus the completion's score (shape: completions) on its last one."""
    rewards = -coefficient * kl * mask
    last = mask.sum(1).long() - 1
    rows = torch.nonzero(last >= 0).squeeze(1)
    rewards[rows, last[rows]] += scores[rows]
    return rewards


def advantages(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """(advantages, returns), not whitened. The value after the last token of a completion is 0: the episode ends there."""
    values = values * mask
    result = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[:, 0])
    for place in reversed(range(rewards.shape[1])):
        next_value = values[:, place + 1] if place + 1 < rewards.shape[1] else torch.zeros_like(running)
        delta = rewards[:, place] + gamma * next_value - values[:, place]
        running = (delta + gamma * lam * running) * mask[:, place]
        result[:, place] = running
    return result, (result + values) * mask


def policy_loss(new: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, cliprange: float) -> dict[str, Tensor]:
    """Clipped policy loss of a minibatch (`loss.policy`) and, without gradient: mean ratio new/old, share of tokens whose clipped term
    decided, half the mean square of the log-ratio in nats a token. `new` and `old` are log-probabilities of the sampled tokens,
    `advantages` is whitened."""
    change = (new - old) * mask
    ratio = change.exp()
    plain, limited = -advantages * ratio, -advantages * ratio.clamp(1 - cliprange, 1 + cliprange)
    loss = masked_mean(torch.maximum(plain, limited), mask)
    with torch.no_grad():
        return {
            "loss.policy": loss,
            "policy.ratio": masked_mean(ratio, mask),
            "policy.clipfrac": masked_mean((limited > plain).float(), mask),
            "policy.approxkl": 0.5 * masked_mean(change**2, mask),
        }


def value_loss(new: Tensor, old: Tensor, returns: Tensor, mask: Tensor, cliprange: float) -> tuple[Tensor, Tensor]:
    """(half the mean of the larger of the plain and the clipped square error, share of tokens whose clipped one decided)."""
    limited = torch.clamp(new, old - cliprange, old + cliprange)  # equal to `new`, to the last digit, where nothing is clipped
    plain_error, limited_error = (new - returns) ** 2, (limited - returns) ** 2
    loss = 0.5 * masked_mean(torch.maximum(plain_error, limited_error), mask)
    return loss, masked_mean((limited_error > plain_error).float(), mask).detach()


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> float | None:
    """1 - Var(returns - values) / Var(returns) over the tokens that count; None when the returns do not vary."""
    if mask.sum() < 2:
        return None
    kept = mask.bool()
    total = float(returns[kept].var())
    return 1 - float((returns - values)[kept].var()) / total if total > 0 else None


def adapted_coefficient(coefficient: float, measured: float, target: float, completions: int, horizon: int) -> float:
    """The KL coefficient after an update in which a whole completion had `measured` nats of KL on average: it follows in proportion, by at
    most 20% x completions / horizon."""
    error = min(max(measured / target - 1, -0.2), 0.2)
    return coefficient * (1 + error * completions / horizon)
