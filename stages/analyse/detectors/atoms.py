"""Reward atoms: one exact reward value, neither 0 nor the maximum, that holds a large share of the completions.

A policy that found a constant, cheap reward (garbage scored as "one type error" gave 0.21) shows up here before it shows up anywhere else.
"""

from stages.analyse.signals import OWN, DataFrame, Run, Thresholds, end, first_above, looked, not_observable, pooled, signal, threshold
from stages.contracts.health import Detection, Signal
from stages.rules import stretch

NAME = "atoms"
NEEDS_COMPLETIONS = True


class Settings(Thresholds):
    share: float = threshold(0.3, "share of completions", f"{OWN}; the exploit that it is made after held 0.40", gt=0, lt=1)
    """A value that holds a larger share of the completions of a window is an atom."""
    window: int = threshold(10, "steps", ge=1)
    """Steps over which completions are pooled."""
    maximum: float = threshold(1.0, "reward", "gates score from 0 to 1")
    """Highest reward that can be reached; a higher one that was observed takes its place."""


def detect(settings: Settings, run: Run) -> Detection:
    """One signal a value, with the latest texts that earned it (untrusted text, escape before showing)."""
    if run.rewards.empty:
        return not_observable(NAME, "no completions with a known reward were recorded")
    rewards = run.counting(run.rewards)
    if rewards.empty:
        return not_observable(NAME, "no step counts: the gradient is not finite in any with completions")
    n, totals = rewards.sum(axis=1), rewards.sum()
    maximum = max(settings.maximum, totals.index[totals > 0].max())
    # a value with fewer completions in all than the share of one step is no atom: graded rewards have thousands of values
    values = (float(value) for value in totals.index[totals > settings.share * n.min()] if value not in (0.0, maximum))
    return looked(NAME, *(_signal(settings, run, value, rewards[value].to_frame("k").assign(n=n)) for value in values))


def _signal(settings: Settings, run: Run, value: float, counts: DataFrame) -> Signal | None:
    hit = first_above(counts, settings.share, settings.window)
    if hit is None:
        return None
    (k, n), (last_k, last_n), steps = pooled(counts), pooled(counts, settings.window), counts.index
    says = (
        f"{hit.k} of {hit.n} completions of {stretch(hit.first, hit.last)} earned exactly {value:g}, neither 0 nor the maximum "
        f"({k / n:.0%} of all, {last_k / last_n:.0%} in {end(steps[0], steps[-1], settings.window)})"
    )
    evidence = {"k": k, "n": n, "examples": run.examples.get(value, [])}
    dates = (hit.onset, hit.last, steps[counts["k"] > 0][-1])
    return signal(NAME, run, "reward", "warning", says, value, dates, evidence, null="expected")
