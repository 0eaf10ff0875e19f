"""Non-finite values: the class `none`, `transient` or `persistent` of each metric, with count, first, last and share.

A step whose gradient is NaN counts even if its loss reads 0.0: trainers log NaN losses as 0.0. Persistent from step s means that
no later row is finite, and it ends the run's valid range at s - 1. NaN and Infinity are told apart where the history keeps them apart.
"""

from stages.analyse.signals import Answer, Event, NotObservable, Run, counted
from stages.contracts.artifact import Frozen
from stages.contracts.history import GRADIENT_METRICS, SKIPPED
from stages.rules import stretch

SINGLE_STEPS = "a value that is not finite"


class Settings(Frozen):
    """None: whether a number is finite is no matter of taste. Persistence needs 3 rows (`stages/analyse/frames.py`)."""


def detect(settings: Settings, run: Run) -> Answer:
    """One event a metric that is not always finite; `gradient` stands for gradient norm, loss and skipped steps together."""
    from stages.analyse.cells import PERSISTENT_STEPS

    if run.steps.empty:
        raise NotObservable("nothing was logged")
    parts = [name for name in (*GRADIENT_METRICS, SKIPPED) if name in run.steps]
    if not parts and run.imported:
        yield "neither the gradient norm nor the loss was logged"
    odd = [name for name in run.steps.columns[run.steps.eq(float("inf")).any()] if name not in parts]
    for metric, bad in {"gradient": run.gradient, **{name: run.nonfinite(name) for name in odd}}.items():
        if bad is None:
            continue
        names = parts if metric == "gradient" else [metric]
        steps = run.steps[names].dropna(how="all").index
        rows = f"{bad.k} of {counted(bad.n, 'logged step')} {'is' if bad.k == 1 else 'are'} {run.not_finite(*names)}"
        if bad.since is not None:
            valid = (f"only steps before {bad.since} count" if steps[0] < bad.since else "no step counts") if metric == "gradient" else ""
            says = f"{metric} is not finite from step {bad.since} to the end of the log ({rows}): {valid or 'it never recovers'}"
        else:
            where = f"at {stretch(bad.first, bad.last)}" if bad.first == bad.last else f"between steps {bad.first} and {bad.last}"
            after = " and recovers"
            if bad.last == steps[-1]:
                after = f", the last of the log, where fewer than {PERSISTENT_STEPS} such rows in a row are not called persistent"
            # a step without a gradient counts in nothing; a metric that is not finite lacks its own value only
            out = f"{'the step is' if bad.k == 1 else 'these steps are'} left out of "
            out += "every statistic" if metric == "gradient" else f"statistics of {metric}"
            says = f"{metric} is not finite {where}{after} ({rows}); {out}"
        if metric == "reward":
            says += "; a group with such a reward teaches nothing, and the share of groups without signal is unknown there"
        kind, severity = ("transient", "warning") if bad.since is None else ("persistent", "severe")
        evidence = {"class": kind, "count": bad.k, "rows": bad.n, "first": bad.first}
        yield Event(metric, severity, says, bad.k / bad.n, (bad.since or bad.first, bad.knowable, bad.last), evidence)
