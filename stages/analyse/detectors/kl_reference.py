"""KL to the reference model: how far the policy has moved, in nats per token, held against the null controls' movement.

The estimator matters. k3 is never negative; k1 may be, and around 0 it has either sign by chance. A k1 that stays below 0 by more than its
standard error (batch means) says that completions were not sampled from the distribution that is scored: look at temperature and top_p
before anything else. The null control's KL is what the optimizer does without a reward: a movement no larger is no effect of the reward.
"""

from stages.analyse.signals import OWN, Answer, Event, NotObservable, Run, Thresholds, at_end, needed, since_outside, threshold
from stages.rules import above


class Settings(Thresholds):
    impossible: float = threshold(100.0, "nats per token", "as in `impossible`", gt=0)
    """A first value beyond this says that the numbers are no distance."""
    above: float = threshold(0.5, "nats per token", gt=0)
    """A larger mean of the last window is a warning."""
    errors: float = threshold(4.0, "standard errors", f"{OWN}; batch means of short series are rough", gt=0)
    """The mean over all steps is negative when it lies this number of standard errors below 0."""
    share: float = threshold(0.5, "share of steps", ge=0, lt=1)
    """And a larger share of the steps is negative."""


def detect(settings: Settings, run: Run) -> Answer:
    """A warning for a negative estimate; else one event that says how far the policy is and what the null controls did."""
    from stages.analyse.statistics import batch_means

    values = needed(run, "kl", "there is no reference model in the loss")
    negative = values.index[values < 0]
    whole = batch_means(values) if len(negative) / len(values) > settings.share else None
    if whole and whole[0] < -settings.errors * whole[1]:
        says = (
            f"estimate negative: sampling and scoring differ. KL to the reference model is {whole[0]:.3g} nats per token over all steps "
            f"(standard error {whole[1]:.2g}), below 0 in {len(negative)} of {len(values)} of them; "
            "compare temperature and top_p with scoring"
        )
        dates, evidence = (negative[0], None, negative[-1]), {"k": len(negative), "n": len(values), "standard_error": whole[1]}
        yield Event("kl", "warning", says, whole[0], dates, evidence, "negative")
        return
    _, last = run.ends("kl")
    if last.empty:
        raise NotObservable("kl has no value in the last window")
    mean = last.mean()
    far, nulls = above(mean, settings.above), sorted(run.null_finals.get("kl", ()))
    estimator = "k1, which may be negative" if len(negative) else "no value is negative, so k3 or k1"
    says = f"KL to the reference model is {mean:.3g} nats per token in {at_end(run.window())} ({estimator})"
    says += f", above {settings.above:g}" if far else ""
    if run.null_control:
        says += "; it is a null control: this is movement without a reward"
    elif not nulls:
        says += "; no null control to hold it against"
    else:
        says += f"; null control: {nulls[0]:.3g}" + (f" to {nulls[-1]:.3g}" if nulls[0] < nulls[-1] else "")
        says += ", so it has not moved further than without a reward" if mean <= nulls[-1] else ""
    dates = (since_outside(run, values <= settings.above) if far else None, None, values.index[-1])
    kind = "impossible" if far and max(values.iloc[0], mean) > settings.impossible else ""
    yield Event("kl", "warning" if far else "info", says, mean, dates, {"rows": len(values), "null_controls": nulls}, kind, "info")
