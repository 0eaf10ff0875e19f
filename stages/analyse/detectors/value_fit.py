"""The fit of PPO's value head at the end: its explained variance 1 - E(return - value)^2 / Var(return).

1 is a perfect guess and 0 what a constant guess reaches; below 0 the head takes no variance out of the advantages but adds some.
"""

from stages.analyse.signals import Answer, Event, NotObservable, Run, Thresholds, needed, threshold
from stages.rules import below, stretch

METRIC = "value.explained_variance"


class Settings(Thresholds):
    window: int = threshold(20, "logged rows", ge=3)
    """Last logged steps that are looked at."""
    below: float = threshold(0.0, "part of the variance", "0 is what a constant explains", le=1)
    """A median explained variance below this is a warning."""


def detect(settings: Settings, run: Run) -> Answer:
    """At most one event. The median is taken because one update with hardly any variance gives a value far below zero."""
    own = METRIC if run.imported else "loss.value"  # our own log lacks METRIC also where returns do not vary
    if not run.logs(own):
        needed(run, own, "no value head was trained")
    values = run.values(METRIC)
    if values.empty:
        some = (run.logged(METRIC) > float("-inf")).any()  # a number or one that is not finite
        raise NotObservable(run.why_none(METRIC) if some else "the returns did not vary, so there was nothing to explain")
    last = values.iloc[-settings.window :]
    if below(last.median(), settings.below):
        bar = "a constant does" if settings.below == 0 else f"the declared {settings.below:g} (a constant explains 0)"
        steps = stretch(last.index[0], last.index[-1])
        says = f"the value head explained less of the returns than {bar}: median explained variance {last.median():.2g} in {steps}"
        dates = (last.index[0], None, last.index[-1])
        yield Event(METRIC, "warning", says, last.median(), dates, {"rows": len(last)}, null="info")
