"""A negative KL in PPO's penalty. A KL is never negative; its k1 estimate is when completions come from another distribution than the one
that is scored (temperature, top_p), and the penalty then rewards what it should punish."""

from stages.analyse.signals import OWN, Answer, Event, Run, Thresholds, counted, needed, threshold

SINGLE_STEPS = "a negative estimate"


class Settings(Thresholds):
    below: float = threshold(-0.5, "nats per completion", lt=0)
    """A step counts as negative below this; around 0 the estimate of a batch has either sign."""
    share: float = threshold(0.05, "share of steps", f"{OWN}; a report of 600 PPO updates had 122 (20%)", ge=0, lt=1)
    """A larger share of negative steps is a warning."""


def detect(settings: Settings, run: Run) -> Answer:
    """At most one event, with the lowest value."""
    values = needed(run, "objective.kl", "there is no KL penalty in the reward")
    negative = values[values < settings.below]
    if len(negative) / len(values) > settings.share:
        says = (
            f"the KL in the penalty was below {settings.below:g} nats per completion in {len(negative)} of {counted(len(values), 'step')}, "
            f"lowest {negative.min():.3g} at step {negative.idxmin()}: completions are not samples of the distribution that is scored"
        )
        dates, evidence = (negative.index[0], None, negative.index[-1]), {"k": len(negative), "n": len(values)}
        yield Event("objective.kl", "warning", says, negative.min(), dates, evidence)
