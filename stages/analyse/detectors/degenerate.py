"""Degenerate optimum: the reward is at its attainable maximum at the end while length, diversity or entropy is at its floor. And degenerate
output, whatever it earns: entropy is gone and nearly every completion runs into the length limit, as one repeated sign does.

A reward for short answers ended at 1.94 of 2.0 with one-word answers: a reward curve alone shows success. A short right answer looks the
same to this rule, so its signal asks for the texts and never says that the answers are wrong.
"""

from stages.analyse.signals import OWN, Answer, Event, NotObservable, Run, Thresholds, at_end, since_outside, threshold
from stages.rules import above, below

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
    nothing_left: float = threshold(0.01, "nats per token", f"{OWN}; one repeated sign has 0", gt=0)
    """An entropy below this in the last window, with completions cut, is degenerate output."""
    cut: float = threshold(0.95, "share of completions", f"{OWN}; what repeats itself never ends", gt=0, lt=1)
    """A larger truncated share in the last window belongs to it."""


def detect(settings: Settings, run: Run) -> Answer:
    """One event a floor, at the end of the run, or one for degenerate output."""
    _, last = run.ends("reward")
    entropy, cut = (run.ends(metric)[1].mean() for metric in ("entropy", "truncated"))
    if below(abs(entropy), settings.nothing_left) and above(cut, settings.cut):
        says = f"entropy is {entropy:.2g} nats per token and {cut:.0%} of completions are cut in {at_end(run.window())}"
        says += f"; reward is {last.mean():.4g}" if len(last) else ""
        inside = run.values("entropy").abs() >= settings.nothing_left
        dates = (since_outside(run, inside), None, run.values("entropy").index[-1])
        yield Event("entropy", "warning", says, entropy, dates, {"truncated": cut}, "output", "expected")
        return
    if not run.logs("reward"):
        raise NotObservable("reward was not logged")
    if last.empty:
        raise NotObservable("reward has no value in the last window")
    if run.same_text.empty and not any(run.logs(name) for name in ("completion_tokens", "entropy")):
        raise NotObservable("neither length, texts nor entropy were logged")
    mean = last.mean()
    observed = run.counting(run.rewards)  # or, where no completions were recorded, the steps' means
    highest = observed.columns[observed.sum() > 0].max() if len(observed) else run.values("reward").max()
    maximum = max(settings.maximum, highest)
    if below(mean, settings.near * maximum):
        if run.imported:
            yield _unseen(run)
        return
    floors: list[tuple[str, float, str]] = []
    first, last = (end.mean() for end in run.ends("completion_tokens"))
    if below(last, settings.tokens) and not above(last, first / 2):
        says = f"completions are {last:.3g} tokens long on average, {first:.3g} in the first window"
        floors.append(("completion_tokens", last, says))
    begin = run.target_steps - run.window() + 1
    k, n = (int(count) for count in run.counting(run.same_text).loc[begin:].sum())
    if n and k / n > settings.same_text:
        floors.append(("texts", k / n, f"{k / n:.0%} of completions ({k} of {n}) are one text of their step, whatever the prompt"))
    first, last = (end.mean() for end in run.ends("entropy"))
    if first > 0 and last >= 0 and below(last / first, settings.entropy):
        ratio = last / first
        floors.append(("entropy", ratio, f"entropy is {ratio:.2g} times that of the first window ({first:.3g} to {last:.3g})"))
    reached = f"reward is {mean:.4g} of {maximum:.4g} in {at_end(run.window())}"
    evidence = {"reward": mean, "examples": run.examples[max(run.examples)] if run.examples else []}
    if run.imported:
        yield _unseen(run)
    for metric, value, words in floors:
        dates = (max(1, begin), None, run.target_steps)
        yield Event(metric, "warning", f"{reached} while {words}", value, dates, evidence, null="expected")


def _unseen(run: Run) -> str:
    """What could not be looked at of a run that others logged."""
    names = {"texts": run.same_text.empty, **{name: not all(map(len, run.ends(name))) for name in ("completion_tokens", "entropy")}}
    missing = [name for name, absent in names.items() if absent]
    return f"not looked at, because it was not logged in the first and last window: {', '.join(missing)}" if missing else ""
