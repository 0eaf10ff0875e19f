"""Entropy change: the mean token entropy of the last window as a ratio to the run's own first window.

Entropies of different models and prompts are not comparable, so the rule knows no good value. An absolute band is used only where a
profile or a spec sets one, with its source.
"""

from stages.analyse.signals import Answer, Event, NotApplicable, NotObservable, Run, Thresholds, since_outside, threshold
from stages.rules import above, below

_SPEC = "none: set only by a profile or a spec, which names its own"


class Settings(Thresholds):
    fall_below: float = threshold(0.2, "ratio", gt=0, lt=1)
    """A smaller ratio of last to first window is a warning: little is explored any more."""
    rise_above: float = threshold(3.0, "ratio", gt=1)
    """A larger ratio of last to first window is a warning: the policy loses its shape."""
    lowest: float | None = threshold(None, "nats per token", _SPEC, ge=0)
    """A lower mean of the last window is a warning; null: not used."""
    highest: float | None = threshold(None, "nats per token", _SPEC, ge=0)
    """A higher mean of the last window is a warning; null: not used."""


def detect(settings: Settings, run: Run) -> Answer:
    """At most one event."""
    if not run.logs("entropy"):
        raise NotObservable("entropy was not logged")
    before, after = run.ends("entropy")
    if before.empty or after.empty:
        raise NotObservable(f"entropy has no value in the {'first' if before.empty else 'last'} window")
    first, last, infinite = before.mean(), after.mean(), float("inf")
    lowest, highest = (
        -infinite if settings.lowest is None else settings.lowest,
        infinite if settings.highest is None else settings.highest,
    )
    band = f"below the declared {lowest:g}" if below(last, lowest) else f"above the declared {highest:g}" if above(last, highest) else ""
    if (first <= 0 or last < 0) and not band:
        where = f"{first:.3g} in the first window" if first <= 0 else f"{last:.3g} in the last window"
        raise NotApplicable(f"entropy is {where}: no ratio says anything")
    ratio = last / first if first > 0 else None
    if not band and ratio is not None and not below(ratio, settings.fall_below) and not above(ratio, settings.rise_above):
        return
    values, window = run.values("entropy"), run.window()
    inside = values.between(settings.fall_below * first, settings.rise_above * first) & (first > 0) & values.between(lowest, highest)
    over = "the first step, then over the last" if window == 1 else f"the first {window} steps, then over the last {window}"
    says = f"entropy went from {first:.3g} to {last:.3g} nats per token (mean over {over}"
    says += (f", ratio {ratio:.2g})" if ratio is not None else ")") + (f", {band}" if band else "")
    evidence = {"first": first, "last": last} | ({"outside": band} if band else {})
    dates = (since_outside(run, inside), None, values.index[-1])
    kind = "outside" if band or ratio is None else "fallen" if ratio < 1 else "risen"
    yield Event("entropy", "warning", says, ratio, dates, evidence, kind, "info")
