"""How often intervals of equal seeds hold the truth, by what their completions are counted as. Fixed seed; a minute.

    python benchmarks/equal_seeds.py [rounds]

A condition of three seeds, windows of 6 or 30 steps, 32 completions a step in groups of 8, a true share of 0.001 to 0.03. Shares of seeds
scatter about it, and those of steps about their seed's, as beta distributions with the correlation that is given. Where all seeds have
the same share the interval is Wilson's over all completions, over groups, or over steps (octavo's); elsewhere it is t over the seeds. What
it prints stands in site/docs/decisions/0033.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from stages.analyse.counted import Count, over_seeds
from stages.analyse.statistics import Interval, mean, of_completions

SEEDS, EACH, GROUP = 3, 32, 8
CASES = ((0.001, 0.0, 0.0), (0.01, 0.0, 0.0), (0.01, 0.0, 0.3), (0.01, 0.01, 0.3), (0.01, 0.1, 0.0), (0.03, 0.1, 0.3))
"""True share, correlation within a seed, correlation within a step."""


def scattered(rng: np.random.Generator, at: NDArray[np.float64], correlation: float) -> NDArray[np.float64]:
    """Shares about `at`."""
    if correlation == 0:
        return at
    rest = (1 - correlation) / correlation
    return np.clip(rng.beta(at * rest, (1 - at) * rest), 1e-9, 1 - 1e-9)


def _holds(found: Interval, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    rng = np.random.default_rng(33)
    print("share  seed  step  steps  equal    t |  completions: equal, all |  groups: equal, all |  steps: equal, all")
    for steps in (6, 30):
        for truth, seed, step in CASES:
            apart: list[bool] = []
            alike: list[list[bool]] = []
            for _ in range(rounds):
                shares = scattered(rng, np.full(SEEDS, truth), seed)
                cut = rng.binomial(EACH, scattered(rng, np.repeat(shares[:, None], steps, axis=1), step)).sum(axis=1).tolist()
                n = EACH * steps
                found = mean([k / n for k in cut], 0.95)
                if not found.equal:
                    apart.append(_holds(found, truth))
                    continue
                worths = (n, n // GROUP, steps)
                counts = [over_seeds([Count(k / n, k, n, worth) for k in cut], once=False) for worth in worths]
                alike.append([_holds(of_completions([count], [], 0.95), truth) for count in counts])
            held = [(sum(answers), len(alike)) for answers in zip(*alike, strict=True)]
            columns = [f"{k / n:18.2f}, {(k + sum(apart)) / rounds:.2f}" for k, n in held]
            share = len(alike) / rounds
            print(f"{truth:5}  {seed:4}  {step:4}  {steps:5}  {share:5.2f} {np.mean(apart):4.2f} | {' | '.join(columns)}")


if __name__ == "__main__":
    main()
