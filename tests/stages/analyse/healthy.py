"""Healthy synthetic runs: what no detector should warn about, with the noise and the memory that real logs have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from run_from import CompletionsSummary, RewardCount, Share, ask, run_from
from scipy.signal import lfilter

from compiler.language.health_profiles import detectors
from stages.analyse.frames import Resume, Run
from stages.contracts.plugin import DETECTORS, load

STEPS, GROUPS, SAMPLES = 300, 8, 8


def memory(rng: np.random.Generator, n: int, phi: float) -> NDArray[np.float64]:
    """A stationary first-order autoregression of unit variance whose neighbours correlate by phi."""
    noise = rng.normal(0, (1 - phi**2) ** 0.5, n)
    noise[:1] = rng.normal()
    series: NDArray[np.float64] = lfilter([1.0], [1.0, -phi], noise)
    return series


def healthy(rng: np.random.Generator, ppo: bool, steps: int = STEPS) -> Run:
    """A run that learns: reward 0.3 to 0.7, entropy down by a third, KL up to 0.05, resumed once in the middle without a trace."""
    at = np.arange(1, steps + 1)
    learnt = 1 - np.exp(-3 * at / steps)

    def walk(base: NDArray[np.float64] | float, noise: float) -> NDArray[np.float64]:
        return base + noise * memory(rng, steps, 0.5)

    reward = np.clip(walk(0.3 + 0.42 * learnt, 0.05), 0, 0.95)
    columns: dict[str, NDArray[np.float64]] = {
        "reward": reward,
        "completion_tokens": np.maximum(5, walk(80 + 20 * learnt, 6)),
        "entropy": np.maximum(0.05, walk(0.9 - 0.3 * learnt, 0.05)),
        "kl": walk(0.05 * learnt, 0.004),
        "grad_norm": np.exp(walk(-1.0, 0.25)),
        "loss": walk(0.0, 0.01),
        "step_seconds": np.exp(walk(0.7, 0.15)),
        "reward_seconds": np.exp(walk(-1.2, 0.2)),
        "unknown_share": np.where(rng.random(steps) < 0.05, 1 / (GROUPS * SAMPLES), 0.0),
        "learning_rate": 1e-5 * (1 - at / (steps + 1)),
    }
    silent = rng.binomial(GROUPS, 0.1, steps)
    cut = rng.binomial(GROUPS * SAMPLES, 0.1, steps)
    columns["truncated"] = cut / (GROUPS * SAMPLES)
    if ppo:
        columns |= {
            "objective.kl": walk(4 * learnt, 0.4),
            "objective.scores": reward,
            "objective.rlhf_reward": reward - 0.05 * learnt + 0.01 * memory(rng, steps, 0.5),
            "loss.policy": walk(-0.01, 0.003),
            "loss.value": np.exp(walk(-2.0, 0.2)),
            "value.explained_variance": np.minimum(0.95, walk(0.6 * learnt, 0.1)),
            "policy.clipfrac": np.clip(walk(0.1, 0.03), 0, 1),
            "policy.ratio": walk(1.0, 0.01),
            "policy.first_ratio": np.ones(steps),
            "policy.approxkl": np.abs(walk(0.005, 0.002)),
        }
    else:
        columns |= {"zero_signal_share": silent / GROUPS, "group_range": np.maximum(0.01, walk(0.8, 0.05))}
    return run_from(
        run="healthy-s1",
        condition="healthy",
        role="treatment",
        target_steps=steps,
        metrics={name: _cells(values) for name, values in columns.items()},
        completions=_completions(rng, reward, silent, cut, ppo),
        resumes=(Resume(steps // 2 + 1, steps // 2),),
        adapter="changed",
        same_text=tuple(Share(step, int(k), GROUPS * SAMPLES) for step, k in enumerate(rng.binomial(GROUPS * SAMPLES, 0.05, steps), 1)),
        null_finals={"kl": (0.004, 0.006)},
        siblings=2,
    )


def alarms(runs: int) -> dict[str, tuple[int, int]]:
    """By detector: runs with a warning, of those that it looked at."""
    warned: Counter[str] = Counter()
    looked: Counter[str] = Counter()
    for profile in ("grpo-default", "ppo-default"):
        cards = detectors(profile)
        for index in range(runs):
            run = healthy(np.random.default_rng([index, profile == "ppo-default"]), profile == "ppo-default")
            for card in cards:
                detection = ask(load(DETECTORS, card.kind), run, **card.settings)
                looked[card.kind] += detection.state == "looked"
                warned[card.kind] += any(signal.severity != "info" for signal in detection.signals)
    return {kind: (warned[kind], looked[kind]) for kind in sorted(looked)}


def _cells(values: NDArray[np.float64]) -> tuple[tuple[int, float | None, str], ...]:
    return tuple((step, value, "value") for step, value in enumerate(values.tolist(), start=1))


def _completions(
    rng: np.random.Generator, reward: NDArray[np.float64], silent: NDArray[np.int64], cut: NDArray[np.int64], ppo: bool
) -> CompletionsSummary:
    """Rewards of 0, full, and two honest partial scores that hold a tenth each."""
    n = GROUPS * SAMPLES
    counts: list[RewardCount] = []
    for step, mean in enumerate(reward.tolist(), start=1):
        full = min(0.84, max(0.0, mean - 0.05))
        held: Mapping[float, int] = dict(
            zip((0.0, 0.2, 0.6, 1.0), rng.multinomial(n, [0.85 - full, 0.08, 0.07, full]).tolist(), strict=True)
        )
        counts += [RewardCount(step, value, k) for value, k in held.items() if k]
    steps = range(1, len(reward) + 1)
    return CompletionsSummary(
        completions=n * len(reward),
        unknown=0,
        zero_signal=() if ppo else tuple(Share(step, int(k), GROUPS) for step, k in zip(steps, silent, strict=True)),
        truncated=tuple(Share(step, int(k), n) for step, k in zip(steps, cut, strict=True)),
        rewards=tuple(counts),
    )
