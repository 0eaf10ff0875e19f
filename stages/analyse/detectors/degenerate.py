"""Degenerate optimum: the reward is at its attainable maximum at the end while length, diversity or entropy is at its floor.

A reward for short answers ended at 1.94 of 2.0 with one-word answers: a reward curve alone shows success. A short right answer looks the
same to this rule, so its signal asks for the texts and never says that the answers are wrong.
"""

from collections.abc import Iterator

from stages.analyse.signals import OWN, Run, Thresholds, at_end, looked, not_observable, signal, threshold
from stages.contracts.health import Detection
from stages.rules import above, below

NAME = "degenerate"
NEEDS_COMPLETIONS = True


class Settings(Thresholds):
    maximum: float = threshold(1.0, "reward", "gates score from 0 to 1", gt=0)
    """Highest reward that can be reached; a higher one that was observed takes its place."""
    near: float = threshold(0.95, "share of the maximum", f"{OWN}; the case that it is made after held 0.97", gt=0, le=1)
    """The mean reward of the last window is at its maximum from this share of it on."""
    tokens: float = threshold(5.0, "tokens", f"{OWN}: one word and the end of text", gt=0)
    """Completions of fewer tokens on average are at their floor, where the first window's were at least twice as long."""
    same_text: float = threshold(0.5, "share of completions", gt=0, le=1)
    """Diversity is at its floor when the most common text of a step holds a larger share of it, over different prompts."""
    entropy: float = threshold(0.05, "ratio to the first window", gt=0, lt=1)
    """Entropy is at its floor below this share of the run's own first window."""


def detect(settings: Settings, run: Run) -> Detection:
    """One signal a floor, at the end of the run."""
    _, last = run.ends("reward")
    if not run.logs("reward"):
        return not_observable(NAME, "reward was not logged")
    if last.empty:
        return not_observable(NAME, "reward has no value in the last window")
    if run.same_text.empty and not any(run.logs(name) for name in ("completion_tokens", "entropy")):
        return not_observable(NAME, "neither length, texts nor entropy were logged")
    mean = last.mean()
    observed = run.counting(run.rewards)  # or, where no completions were recorded, the steps' means
    highest = observed.columns[observed.sum() > 0].max() if len(observed) else run.values("reward").max()
    maximum = max(settings.maximum, highest)
    if below(mean, settings.near * maximum):
        return looked(NAME)
    reached = f"reward is {mean:.4g} of {maximum:.4g} in {at_end(run.window())}"
    examples = run.examples[max(run.examples)] if run.examples else []
    dates = (max(1, run.target_steps - run.window() + 1), None, run.target_steps)
    evidence = {"reward": mean, "examples": examples}
    signals = [
        signal(NAME, run, metric, "warning", f"{reached} while {words}", value, dates, evidence, null="expected")
        for metric, value, words in _floors(settings, run)
    ]
    return looked(NAME, *signals)


def _floors(settings: Settings, run: Run) -> Iterator[tuple[str, float, str]]:
    first, last = (end.mean() for end in run.ends("completion_tokens"))
    if below(last, settings.tokens) and not above(last, first / 2):
        yield "completion_tokens", last, f"completions are {last:.3g} tokens long on average, {first:.3g} in the first window"
    texts = run.counting(run.same_text).loc[run.target_steps - run.window() + 1 :]
    k, n = int(texts["k"].sum()), int(texts["n"].sum())
    if n and k / n > settings.same_text:
        yield "texts", k / n, f"{k / n:.0%} of completions ({k} of {n}) are one text of their step, whatever the prompt"
    first, last = (end.mean() for end in run.ends("entropy"))
    if first > 0 and last >= 0 and below(last / first, settings.entropy):
        yield "entropy", last / first, f"entropy is {last / first:.2g} times that of the first window ({first:.3g} to {last:.3g})"
