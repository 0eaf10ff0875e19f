"""False alarms of every detector on healthy synthetic runs, and coverage of every interval on simulated seeds and steps. Fixed seeds.

    python benchmarks/false_alarms.py [runs]

A healthy run has 300 steps: reward and length move smoothly and saturate below the maximum, noise is a first-order autoregression whose
neighbours correlate by 0.5, a tenth of the groups have equal rewards, a tenth of the completions are cut. `detectors` prints the share of
such runs with a warning, by detector, for GRPO and PPO alike, with Wilson's interval. `intervals` prints how often 95% intervals hold
the truth. `changes` does both for changes of level and for parts, on runs of 60 to 3,000 steps whose neighbours correlate by 0 to 0.9,
logged at each step, each fifth and each tenth. What it prints is stated in site/docs/reference/detectors.md
(tests/stages/analyse/detectors_reference.py holds the table).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "stages" / "analyse")]

from healthy import STEPS, alarms, alarms_by_length, memory  # noqa: E402

from stages.analyse.changes import fall  # noqa: E402
from stages.analyse.statistics import Interval, estimate, proportion, trend  # noqa: E402
from stages.contracts.wilson import wilson  # noqa: E402


class Held(NamedTuple):
    """Of a kind of interval: the share of rounds that gave one, and of these the share that held the truth."""

    given: float
    held: float


def coverage(rounds: int) -> dict[str, Held]:
    """By 95% interval."""
    rng = np.random.default_rng(11)
    seen: dict[str, list[bool | None]] = {}

    def see(name: str, interval: Interval, truth: float) -> None:
        held = None if interval.low is None or interval.high is None else bool(interval.low <= truth <= interval.high)
        seen.setdefault(name, []).append(held)

    for _ in range(rounds):
        for n in (2, 3, 5, 10):
            see(f"t, {n} seeds", estimate([list(rng.normal(0.6, 0.1, n))], 0.95), 0.6)
            see(f"Welch, {n} seeds, spreads 1 and 3", estimate([list(rng.normal(0, 1, n)), list(rng.normal(0, 3, n))], 0.95), 0.0)
            see(f"Welch, {n} and 3 seeds, spreads 1 and 3", estimate([list(rng.normal(0, 1, n)), list(rng.normal(0, 3, 3))], 0.95), 0.0)
            for a, b in ((5, 5), (9, 1)):
                shares = list(rng.beta(a, b, n))
                see(f"t on the logit scale, {n} seeds of Beta({a}, {b})", estimate([shares], 0.95, bounds=(0.0, 1.0)), a / (a + b))
                see(f"t without bounds, {n} seeds of Beta({a}, {b})", estimate([shares], 0.95), a / (a + b))
        pairs = rng.normal(0, 1, 5)[:, None] + rng.normal(0, 0.3, (5, 2))
        see("paired differences, 5 seeds", estimate([list(pairs[:, 0] - pairs[:, 1])], 0.95), 0.0)
        for n, p in ((18, 0.1), (128, 0.3), (512, 0.02)):
            see(f"Wilson, n {n}, share {p}", proportion(int(rng.binomial(n, p)), n, 0.95), p)
    for n in (6, 30, 100, 1000):
        learning = 3 * (1 - np.exp(-3 * np.arange(10 * n) / (10 * n)))
        moved = float(learning[-n:].mean() - learning[:n].mean())
        for phi in (0.0, 0.5, 0.9, 0.97):
            for _ in range(rounds if n < 1000 else rounds // 4):
                see(
                    f"change of a run, windows of {n} steps, neighbours correlate by {phi}",
                    _change(learning + memory(rng, 10 * n, phi), n),
                    moved,
                )
        for part, phi in (("a third of a window", 1 - 3 / n), ("a window", 1 - 1 / n), ("three windows", 1 - 1 / (3 * n))):
            for _ in range(rounds if n < 1000 else rounds // 4):
                run = learning + rng.normal(0, 1, 10 * n) + 0.5 * memory(rng, 10 * n, phi)
                see(f"change of a run, windows of {n} steps, noise over a drift that remembers {part}", _change(run, n), moved)
    return {name: _share(answers) for name, answers in seen.items()}


def _change(run: NDArray[np.float64], n: int) -> Interval:
    """As run_finding makes it."""
    return trend(run[:n], run[-n:], 0.95)


def _share(answers: list[bool | None]) -> Held:
    given = [answer for answer in answers if answer is not None]
    return Held(len(given) / len(answers), sum(given) / len(given) if given else float("nan"))


def falls(rounds: int, stride: int) -> dict[str, tuple[int, int, int]]:
    """By how long the fall takes: rounds, falls that were seen, intervals that held the middle of the fall. Logs as in `changes`."""
    counts: dict[str, tuple[int, int, int]] = {}
    for name, share in (("one step", 0.0), ("a tenth of the run", 0.1), ("a third of the run", 0.33)):
        seen = held = logged = 0
        for index in range(rounds):
            rng = np.random.default_rng([index, stride, int(100 * share), 23])
            n = int(60 * 50 ** rng.random()) // stride * stride
            middle = int(rng.uniform(0.35, 0.65) * n)
            gone = np.clip((np.arange(n) - middle) / max(1.0, share * n) + 0.5, 0, 1) if share else (np.arange(n) >= middle) * 1.0
            level = (0.3 + 0.4 * (1 - np.exp(-3 * np.arange(n) / n))) * (1 - gone)
            rows = np.clip(level + 0.05 * memory(rng, n, 0.9 * rng.random()), 0, None).reshape(-1, stride).mean(axis=1)
            change = fall(rows, 6.0, 0.2)
            logged += 1
            seen += change is not None
            held += change is not None and (change.low - (stride > 1)) * stride <= middle <= change.high * stride + stride - 1
        counts[name] = (logged, seen, held)
    return counts


def _percent(k: int, n: int) -> str:
    low, high = wilson(k, n, 0.95) if n else (0.0, 1.0)
    return f"{k:5} of {n:5}  {100 * k / n if n else 0:6.2f}%  [{100 * low:.2f}%, {100 * high:.2f}%]"


def changes(runs: int) -> None:
    for stride in (1, 5, 10):
        print(f"changes of level, runs of 60 to 3,000 steps, logged every {stride} steps")
        for kind, (k, n) in alarms_by_length(runs, stride).items():
            print(f"  false alarms of {kind:24} {_percent(k, n)}")
        for name, (n, seen, held) in falls(runs // 4, stride).items():
            print(f"  falls to zero over {name:20} {_percent(seen, n)}, interval holds {_percent(held, seen)}")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"false alarms, {runs} healthy runs of {STEPS} steps a profile")
    for kind, (k, n) in alarms(runs).items():
        print(f"  {kind:16} {_percent(k, n)}")
    for stride in (5, 10):
        print(f"the same, imported from logs of every {stride} steps")
        for kind, (k, n) in alarms(runs, stride).items():
            print(f"  {kind:16} {_percent(k, n)}")
    changes(2 * runs)
    print(f"coverage of 95% intervals, {2 * runs} rounds")
    for name, (given, held) in coverage(2 * runs).items():
        print(f"  {name:66} {held:.3f}" + ("" if given == 1 else f", given in {given:.3f}: wrong in {given * (1 - held):.3f} of all"))


if __name__ == "__main__":
    main()
