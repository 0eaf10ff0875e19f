"""Healthy synthetic runs: what no detector should warn about, with the noise and the memory that real logs have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from run_from import CompletionsSummary, RewardCount, Share, ask, run_from
from scipy.signal import lfilter

from compiler.language.health_profiles import detectors
from stages.analyse.frames import Resume, Run
from stages.contracts.plugin import DETECTORS, load

STEPS, GROUPS, SAMPLES = 300, 8, 8
WORDS = " ".join(path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parents[3] / "site/docs/guide").glob("*.md"))).split(
    " "
)
WORDS_OF_A_TEXT = 40
"""Texts of healthy runs are stretches of the guide: prose, tables and YAML."""


def memory(rng: np.random.Generator, n: int, phi: float) -> NDArray[np.float64]:
    """A stationary first-order autoregression of unit variance whose neighbours correlate by phi."""
    noise = rng.normal(0, (1 - phi**2) ** 0.5, n)
    noise[:1] = rng.normal()
    series: NDArray[np.float64] = lfilter([1.0], [1.0, -phi], noise)
    return series


def healthy(rng: np.random.Generator, ppo: bool, steps: int = STEPS, phi: float = 0.5, stride: int = 1, *, counted: bool = True) -> Run:
    """A run that learns: reward 0.3 to 0.7, entropy down by a third, KL up to 0.05, resumed once in the middle without a trace. Of a
    `stride` above 1 a trainer logged means over the steps since the row before, and the gradient of the last one; nobody kept completions.
    Without `counted` no detector of completions finds their counts."""
    at = np.arange(1, steps + 1)
    learnt = 1 - np.exp(-3 * at / steps)

    def walk(base: NDArray[np.float64] | float, noise: float) -> NDArray[np.float64]:
        return base + noise * memory(rng, steps, phi)

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
    more = rng.spawn(1)[0]  # what came later leaves the numbers before it as they were
    for name, base, noise in (("format", 0.8 + 0.17 * learnt, 0.02), ("tests", 0.25 + 0.4 * learnt, 0.06)):
        columns[f"gate.{name}.score"] = np.clip(base + noise * memory(more, steps, phi), 0, 1)
    silent = rng.binomial(GROUPS, 0.1, steps)
    cut = rng.binomial(GROUPS * SAMPLES, 0.1, steps)
    columns["truncated"] = cut / (GROUPS * SAMPLES)
    if ppo:
        columns |= {
            "objective.kl": walk(4 * learnt, 0.4),
            "objective.scores": reward,
            "objective.rlhf_reward": reward - 0.05 * learnt + 0.01 * memory(rng, steps, phi),
            "loss.policy": walk(-0.01, 0.003),
            "loss.value": np.exp(walk(-2.0, 0.2)),
            "value.explained_variance": np.minimum(0.95, walk(0.6 * learnt, 0.1)),
            "policy.clipfrac": np.clip(walk(0.1, 0.03), 0, 1),
            "policy.ratio": walk(1.0, 0.01),
            "policy.first_ratio": np.ones(steps),
            "policy.approxkl": np.abs(walk(0.005, 0.002)),
            "optimizer_steps_share": 1 - more.binomial(16, 0.05, steps) / 16,
        }
    else:
        columns |= {"zero_signal_share": silent / GROUPS, "group_range": np.maximum(0.01, walk(0.8, 0.05))}
    if stride > 1:
        rows = steps // stride * stride
        kept = {name: values[:rows].reshape(-1, stride) for name, values in columns.items()}
        logged = {name: values[:, -1] if name == "grad_norm" else values.mean(axis=1) for name, values in kept.items()}
        cells = {name: _cells(values, stride) for name, values in logged.items()}
        return run_from(cells, role="treatment", target_steps=steps, imported=True, siblings=2)
    run = run_from(
        run="healthy-s1",
        condition="healthy",
        role="treatment",
        target_steps=steps,
        metrics={name: _cells(values) for name, values in columns.items()},
        completions=_completions(rng, reward, silent, cut, ppo) if counted else None,
        resumes=(Resume(steps // 2 + 1, steps // 2),),
        adapter="changed",
        same_text=tuple(Share(step, int(k), GROUPS * SAMPLES) for step, k in enumerate(rng.binomial(GROUPS * SAMPLES, 0.05, steps), 1)),
        null_finals={"kl": (0.004, 0.006)},
        siblings=2,
    )
    if not ppo:
        run.parts = _parts(more, learnt)  # type: ignore[misc]
    starts = rng.integers(len(WORDS) - WORDS_OF_A_TEXT, size=2 * run.window() * 2)
    ends = [*range(1, run.window() + 1), *range(steps - run.window() + 1, steps + 1)]
    texts = [" ".join(WORDS[start : start + WORDS_OF_A_TEXT]) for start in starts]
    run.completions = pd.DataFrame({"step": np.repeat(ends, 2), "text": texts})
    return run


def alarms(runs: int, stride: int = 1) -> dict[str, tuple[int, int]]:
    """By detector: runs with a warning, of those that it looked at. Of a log with a stride only columns are read, no completions."""
    warned: Counter[str] = Counter()
    looked: Counter[str] = Counter()
    for profile in ("grpo-default", "ppo-default"):
        cards = detectors(profile)
        for index in range(runs):
            run = healthy(np.random.default_rng([index, profile == "ppo-default"]), profile == "ppo-default", stride=stride)
            for card in cards:
                detection = ask(load(DETECTORS, card.kind), run, **card.settings)
                looked[card.kind] += detection.state == "looked"
                warned[card.kind] += any(signal.severity != "info" for signal in detection.signals)
    return {kind: (warned[kind], looked[kind]) for kind in sorted(looked)}


def alarms_by_length(runs: int, stride: int) -> dict[str, tuple[int, int]]:
    """The same of the detectors of changes, on runs of 60 to 3,000 steps whose neighbours correlate by 0 to 0.9."""
    warned: Counter[str] = Counter()
    looked: Counter[str] = Counter()
    for index in range(runs):
        rng = np.random.default_rng([index, stride, 17])
        run = healthy(rng, False, int(60 * 50 ** rng.random()), 0.9 * rng.random(), stride, counted=False)
        for kind in ("level", "parts"):
            detection = ask(load(DETECTORS, kind), run)
            looked[kind] += detection.state == "looked"
            warned[kind] += any(signal.severity != "info" for signal in detection.signals)
    return {kind: (warned[kind], looked[kind]) for kind in sorted(looked)}


def _cells(values: NDArray[np.float64], stride: int = 1) -> tuple[tuple[int, float | None, str], ...]:
    return tuple((stride * row, value, "value") for row, value in enumerate(values.tolist(), start=1))


def _parts(rng: np.random.Generator, learnt: NDArray[np.float64]) -> pd.DataFrame:
    """Groups whose completions pass the format and the tests at random, and earn a tenth for the one and the rest for the other."""
    groups = np.repeat(learnt, GROUPS)[:, None]
    drawn = {"gate.format.score": 0.8 + 0.17 * groups, "gate.tests.score": 0.25 + 0.4 * groups}
    scores = {name: (rng.random((len(groups), SAMPLES)) < share).astype(float) for name, share in drawn.items()}
    scores["reward"] = 0.1 * scores["gate.format.score"] + 0.9 * scores["gate.tests.score"]
    index = pd.MultiIndex.from_product([range(1, len(learnt) + 1), range(GROUPS)], names=["step", "group"])
    known = {(name, "count"): np.full(len(groups), SAMPLES) for name in scores}
    measures = {(name, how): getattr(values, how)(axis=1) for name, values in scores.items() for how in ("min", "max", "mean")}
    return pd.DataFrame({**measures, **known}, index=index)


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
