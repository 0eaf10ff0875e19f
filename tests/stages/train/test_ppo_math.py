"""PPO's arithmetic against values computed by hand."""

import math

import pytest
import torch

from stages.train.ppo_math import (
    adapted_coefficient,
    advantages,
    explained_variance,
    kl_of_tokens,
    masked_mean,
    policy_loss,
    token_rewards,
    value_loss,
    whitened,
)


def t(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_gae_by_hand():
    # surprises: 1 - 0.5 = 0.5, then 0.9 * 0.5 - 0.5 = -0.05 twice; each adds 0.9 * 0.95 = 0.855 of the next advantage
    computed, returns = advantages(t([0, 0, 1]), t([0.5, 0.5, 0.5]), t([1, 1, 1]), 0.9, 0.95)
    assert computed.tolist()[0] == pytest.approx([-0.05 + 0.855 * 0.3775, -0.05 + 0.855 * 0.5, 0.5])
    assert returns.tolist()[0] == pytest.approx([0.7727625, 0.8775, 1.0])


def test_gae_with_lambda_one_is_the_return_minus_the_value():
    computed, returns = advantages(t([0.25, 0, 1]), t([3, 2, 1]), t([1, 1, 1]), 1.0, 1.0)
    assert returns.tolist()[0] == pytest.approx([1.25, 1.0, 1.0]) and computed.tolist()[0] == pytest.approx([-1.75, -1.0, 0.0])


def test_gae_ends_where_the_completion_ends():
    long = advantages(t([0, 1]), t([0.5, 0.25]), t([1, 1]), 1.0, 0.95)
    padded = advantages(t([0, 1, 7, 7]), t([0.5, 0.25, 9, 9]), t([1, 1, 0, 0]), 1.0, 0.95)
    assert torch.equal(padded[0][:, :2], long[0]) and torch.equal(padded[1][:, :2], long[1])
    assert not padded[0][:, 2:].any() and not padded[1][:, 2:].any()


def test_no_reward_and_no_penalty_give_no_advantage():
    mask, kl = t([1, 1, 0], [1, 1, 1]), t([0.3, -0.2, 0], [1, 2, 3])
    rewards = token_rewards(torch.zeros(2, dtype=torch.float64), kl, 0.0, mask)
    computed, returns = advantages(rewards, torch.zeros(2, 3, dtype=torch.float64), mask, 1.0, 0.95)
    assert not computed.any() and not returns.any() and not whitened(computed, mask).any()


def test_the_score_stands_on_the_last_token_and_the_penalty_on_each():
    rewards = token_rewards(
        torch.tensor([2.0, 5.0]), torch.tensor([[1.0, 2.0, 9.0], [0.5, 0, 1]]), 0.1, torch.tensor([[1.0, 1, 0], [1, 1, 1]])
    )
    assert rewards.tolist() == [pytest.approx([-0.1, 1.8, 0.0]), pytest.approx([-0.05, 0.0, 4.9])]
    assert not token_rewards(torch.tensor([3.0]), torch.zeros(1, 2), 0.1, torch.zeros(1, 2)).any(), "an unknown completion has no token"


def test_the_policy_loss_takes_the_worse_of_plain_and_clipped():
    old = torch.zeros(1, 3, dtype=torch.float64)
    new = t([math.log(1.5), math.log(0.5), 0.0])
    computed = policy_loss(new, old, t([1, -1, 2]), t([1, 1, 1]), 0.2)
    assert float(computed["loss.policy"]) == pytest.approx((-1.2 + 0.8 - 2.0) / 3)  # max(-1.5, -1.2), max(0.5, 0.8), -2
    assert float(computed["policy.clipfrac"]) == pytest.approx(2 / 3)
    assert float(computed["policy.ratio"]) == pytest.approx((1.5 + 0.5 + 1) / 3)
    assert float(computed["policy.approxkl"]) == pytest.approx(0.5 * (math.log(1.5) ** 2 + math.log(0.5) ** 2) / 3)


def test_a_clip_that_helps_the_policy_is_not_taken():
    computed = policy_loss(t([math.log(0.5)]), t([0.0]), t([1.0]), t([1.0]), 0.2)
    assert float(computed["loss.policy"]) == pytest.approx(-0.5) and float(computed["policy.clipfrac"]) == 0.0


def test_masked_tokens_count_in_no_loss():
    whole = policy_loss(t([0.1, 0.2]), t([0.0, 0.0]), t([1, -2]), t([1, 1]), 0.2)
    padded = policy_loss(t([0.1, 0.2, 5]), t([0, 0, -5]), t([1, -2, 9]), t([1, 1, 0]), 0.2)
    assert {name: float(value) for name, value in padded.items()} == pytest.approx({name: float(value) for name, value in whole.items()})


def test_the_value_loss_takes_the_larger_error():
    loss, clipped = value_loss(t([0.5, 1.0]), t([0, 0]), t([1, 0]), t([1, 1]), 0.2)
    assert float(loss) == pytest.approx(0.5 * (0.64 + 1.0) / 2)  # (0.2 - 1)^2 > (0.5 - 1)^2, and 1^2 > 0.2^2
    assert float(clipped) == pytest.approx(0.5)


def test_a_value_within_the_range_is_not_clipped_by_a_rounding_error():
    generator = torch.Generator().manual_seed(0)
    old, new, returns = (torch.rand(8, 16, generator=generator) for _ in range(3))
    assert float(value_loss(new, old, returns, torch.ones(8, 16), 1.0)[1]) == 0.0


def test_whitening():
    assert whitened(t([1, 2, 3, 99]), t([1, 1, 1, 0])).tolist()[0] == pytest.approx([-1, 0, 1, 0])
    assert whitened(t([1, 2, 3]), t([1, 1, 1]), shift=False).tolist()[0] == pytest.approx([1, 2, 3])
    assert whitened(t([2, 4, 6]), t([1, 1, 1]), shift=False).tolist()[0] == pytest.approx([4 - 1, 4, 4 + 1])
    assert whitened(t([5, 7]), t([1, 0])).tolist() == [[5, 0]], "one token has no spread"


def test_kl_estimators():
    logps, reference = t([math.log(0.5), math.log(0.5)]), t([math.log(0.25), math.log(0.75)])
    k1 = kl_of_tokens(logps, reference, t([1, 1]), "k1")
    k3 = kl_of_tokens(logps, reference, t([1, 1]), "k3")
    assert k1.tolist()[0] == pytest.approx([math.log(2), -math.log(1.5)])
    assert k3.tolist()[0] == pytest.approx([0.5 - 1 + math.log(2), 1.5 - 1 - math.log(1.5)])
    # in the mean over the policy's own samples both are the true KL
    assert float(masked_mean(k1, t([1, 1]))) == pytest.approx(0.5 * math.log(4 / 3)) == pytest.approx(float(masked_mean(k3, t([1, 1]))))


@pytest.mark.parametrize(("measured", "factor"), [(12.0, 1.000320), (0.0, 0.999680), (6.0, 1.0), (5.7, 1 - 0.05 * 0.0016)])
def test_the_coefficient_follows_the_kl_by_at_most_a_fifth(measured, factor):
    assert adapted_coefficient(0.2, measured, 6.0, 16, 10_000) == pytest.approx(0.2 * factor, rel=1e-12)


def test_explained_variance():
    returns, mask = t([1, 2, 3, 50]), t([1, 1, 1, 0])
    assert explained_variance(returns, returns, mask) == 1.0
    assert explained_variance(t([2, 2, 2, 0]), returns, mask) == pytest.approx(0.0)
    assert explained_variance(t([3, 2, 1, 0]), returns, mask) == pytest.approx(1 - 4 / 1)
    assert explained_variance(t([1, 2]), t([3, 3]), t([1, 1])) is None
