"""Non-finite values: the class `none`, `transient` or `persistent` of each metric, with count, first, last and share.

A step whose gradient is NaN counts even if its loss reads 0.0: trainers log NaN losses as 0.0. Persistent from step s means that
no later row is finite, and it ends the run's valid range at s - 1.
"""

from stages.analyse.signals import NonFinite, Run, counted, looked, not_observable, signal
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.history import GRADIENT_METRICS, SKIPPED
from stages.rules import stretch

NAME = "nonfinite"


class Settings(Frozen):
    """None: whether a number is finite is no matter of taste. Persistence needs 3 rows (`stages/analyse/frames.py`)."""


def detect(settings: Settings, run: Run) -> Detection:
    """One signal a metric that is not always finite; `gradient` stands for gradient norm, loss and skipped steps together."""
    if run.steps.empty:
        return not_observable(NAME, "nothing was logged")
    odd = run.steps.columns[run.steps.eq(float("inf")).any()]
    metrics = [name for name in odd if name not in (*GRADIENT_METRICS, SKIPPED)]
    spreads = {"gradient": run.gradient} | {name: run.nonfinite(name) for name in metrics}
    return looked(NAME, *(_signal(run, name, spread) for name, spread in spreads.items() if spread is not None))


def _signal(run: Run, metric: str, bad: NonFinite) -> Signal:
    from stages.analyse.frames import PERSISTENT_STEPS

    lasts = bad.since is not None
    rows = f"{bad.k} of {counted(bad.n, 'logged step')} {'is' if bad.k == 1 else 'are'} NaN or Inf"
    # a step without a gradient counts in nothing; a metric that is not finite lacks its own value only
    out = "the step is" if bad.k == 1 else "these steps are"
    out += " left out of every statistic" if metric == "gradient" else f" left out of statistics of {metric}"
    logged = run.steps[[n for n in (*GRADIENT_METRICS, SKIPPED) if n in run.steps] if metric == "gradient" else [metric]]
    steps = logged.dropna(how="all").index
    if lasts:
        valid = (f"only steps before {bad.since} count" if steps[0] < bad.since else "no step counts") if metric == "gradient" else ""
        says = f"{metric} is not finite from step {bad.since} to the end of the log ({rows}): {valid or 'it never recovers'}"
    else:
        where = f"at {stretch(bad.first, bad.last)}" if bad.first == bad.last else f"between steps {bad.first} and {bad.last}"
        after = " and recovers"
        if bad.last == steps[-1]:
            after = f", the last of the log, where fewer than {PERSISTENT_STEPS} such rows in a row are not called persistent"
        says = f"{metric} is not finite {where}{after} ({rows}); {out}"
    kind, severity = ("persistent", "severe") if lasts else ("transient", "warning")
    evidence = {"class": kind, "count": bad.k, "rows": bad.n, "first": bad.first}
    dates = (bad.since if lasts else bad.first, bad.knowable, bad.last)
    return signal(NAME, run, metric, severity, says, bad.k / bad.n, dates, evidence=evidence)
