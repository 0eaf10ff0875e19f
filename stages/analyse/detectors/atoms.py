"""Reward atoms: one exact reward value, neither 0 nor the maximum, that holds a large share of the completions.

A policy that found a constant, cheap reward (garbage scored as "one type error" gave 0.21) shows up here before it shows up anywhere else.
"""

from stages.analyse.signals import OWN, UNCOUNTED, Answer, Event, NotObservable, Run, Thresholds, end, first_above, pooled, threshold
from stages.rules import stretch

NEEDS_COMPLETIONS = True


class Settings(Thresholds):
    share: float = threshold(0.3, "share of completions", f"{OWN}; the exploit that it is made after held 0.40", gt=0, lt=1)
    """A value that holds a larger share of the completions of a window is an atom."""
    window: int = threshold(10, "steps", ge=1)
    """Steps over which completions are pooled."""
    maximum: float = threshold(1.0, "reward", "gates score from 0 to 1")
    """Highest reward that can be reached; a higher one that was observed takes its place."""


def detect(settings: Settings, run: Run) -> Answer:
    """One event a value, with the latest texts that earned it (untrusted text, escape before showing)."""
    if run.rewards.empty:
        raise NotObservable("no completions with a known reward were recorded")
    rewards = run.counting(run.rewards)
    if rewards.empty:
        raise NotObservable(UNCOUNTED)
    n, totals, steps = rewards.sum(axis=1), rewards.sum(), rewards.index
    maximum = max(settings.maximum, totals.index[totals > 0].max())
    # a value with fewer completions in all than the share of one step is no atom: graded rewards have thousands of values
    for value in (float(value) for value in totals.index[totals > settings.share * n.min()] if value not in (0.0, maximum)):
        counts = rewards[value].to_frame("k").assign(n=n)
        hit = first_above(counts, settings.share, settings.window)
        if hit is not None:
            (k, all_n), (last_k, last_n) = pooled(counts), pooled(counts, settings.window)
            says = (
                f"{hit.k} of {hit.n} completions of {stretch(hit.first, hit.last)} earned exactly {value:g}, neither 0 nor the maximum "
                f"({k / all_n:.0%} of all, {last_k / last_n:.0%} in {end(steps[0], steps[-1], settings.window)})"
            )
            evidence = {"k": k, "n": all_n, "examples": run.examples.get(value, [])}
            dates = (hit.onset, hit.last, steps[counts["k"] > 0][-1])
            yield Event("reward", "warning", says, value, dates, evidence, null="expected")
