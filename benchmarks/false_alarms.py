"""False alarms of every detector on healthy synthetic runs, and coverage of every interval on simulated seeds and steps. Fixed seeds.

    python benchmarks/false_alarms.py [runs]

A healthy run has 300 steps: reward and length move smoothly and saturate below the maximum, noise is a first-order autoregression whose
neighbours correlate by 0.5, a tenth of the groups have equal rewards, a tenth of the completions are cut. `detectors` prints the share of
such runs with a warning, by detector, for GRPO and PPO alike, with Wilson's interval. `intervals` prints how often 95% intervals hold
the truth. What it prints is stated in site/docs/reference/detectors.md (tests/stages/analyse/detectors_reference.py holds the table).
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "stages" / "analyse")]

from healthy import STEPS, healthy, memory  # noqa: E402

from compiler.health_profiles import detectors  # noqa: E402
from stages.analyse.statistics import difference, mean, proportion, trend  # noqa: E402
from stages.analyse.traces import Rows  # noqa: E402
from stages.contracts.plugin import DETECTORS, load  # noqa: E402
from stages.contracts.wilson import wilson  # noqa: E402


def alarms(runs: int) -> dict[str, tuple[int, int]]:
    """By detector: runs with a warning, of those that it looked at."""
    warned: Counter[str] = Counter()
    looked: Counter[str] = Counter()
    for profile in ("grpo-default", "ppo-default"):
        cards = detectors(profile)
        for index in range(runs):
            run = healthy(np.random.default_rng([index, profile == "ppo-default"]), profile == "ppo-default")
            for card in cards:
                plugin = load(DETECTORS, card.kind)
                found = plugin.detect(plugin.Settings.model_validate(card.settings), run)
                looked[card.kind] += found.state == "looked"
                warned[card.kind] += any(signal.severity != "info" for signal in found.signals)
    return {kind: (warned[kind], looked[kind]) for kind in sorted(looked)}


def coverage(rounds: int) -> dict[str, float]:
    """By interval: share of rounds in which the 95% interval holds the truth."""
    rng = np.random.default_rng(11)
    held: dict[str, list[bool]] = {}

    def see(name: str, found: object, truth: float) -> None:
        held.setdefault(name, []).append(bool(found.low <= truth <= found.high))  # type: ignore[attr-defined]

    for _ in range(rounds):
        for n in (2, 3, 5, 10):
            see(f"t, {n} seeds", mean(list(rng.normal(0.6, 0.1, n)), 0.95), 0.6)
            see(f"Welch, {n} seeds, spreads 1 and 3", difference(list(rng.normal(0, 1, n)), list(rng.normal(0, 3, n)), 0.95), 0.0)
        pairs = rng.normal(0, 1, 5)[:, None] + rng.normal(0, 0.3, (5, 2))
        see("paired differences, 5 seeds", mean(list(pairs[:, 0] - pairs[:, 1]), 0.95), 0.0)
        for n, p in ((18, 0.1), (128, 0.3), (512, 0.02)):
            see(f"Wilson, n {n}, share {p}", proportion(int(rng.binomial(n, p)), n, 0.95), p)
        for n in (6, 30, 100, 1000):
            for phi in (0.0, 0.5, 0.9):
                found = trend(Rows.of(memory(rng, n, phi).tolist()), Rows.of(memory(rng, n, phi).tolist()), 0.95)
                see(f"batch means, {n} steps a window, neighbours correlate by {phi}", found, 0.0)
    return {name: sum(values) / len(values) for name, values in held.items()}


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"false alarms, {runs} healthy runs of {STEPS} steps a profile")
    for kind, (k, n) in alarms(runs).items():
        low, high = wilson(k, n, 0.95)
        print(f"  {kind:16} {k:5} of {n:5}  {100 * k / n if n else 0:6.2f}%  [{100 * low:.2f}%, {100 * high:.2f}%]")
    print(f"coverage of 95% intervals, {2 * runs} rounds")
    for name, share in coverage(2 * runs).items():
        print(f"  {name:62} {share:.3f}")


if __name__ == "__main__":
    main()
