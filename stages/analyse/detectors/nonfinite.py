"""Non-finite values: the class `none`, `transient` or `persistent` of each metric, with count, first, last and share.

A step whose gradient is NaN counts even if its loss reads 0.0: trainers log NaN losses as 0.0. Persistent from step s means that
no later row is finite, and it ends the run's valid range at s - 1.
"""

from __future__ import annotations

from stages.contracts.amounts import counted, stretch
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed
from stages.contracts.series import GRADIENT_METRICS, PERSISTENT_STEPS, SKIPPED, NonFinite


class Settings(Frozen):
    """None: whether a number is finite is no matter of taste. Persistence needs 3 rows (`stages/contracts/series.py`)."""


def detect(settings: Settings, series: Observed) -> Detection:
    """One signal a metric that is not `none`; `gradient` stands for gradient norm, loss and skipped steps together."""
    if not series.metrics:
        return Detection(detector="nonfinite", state="not_observable", reason="nothing was logged")
    found = {"gradient": series.gradient}
    for metric in sorted(series.metrics):
        if metric not in (*GRADIENT_METRICS, SKIPPED):
            found[metric] = series.spread_of_nonfinite(metric)
    signals = tuple(_signal(series, metric, how) for metric, how in found.items() if how.kind != "none")
    return Detection(detector="nonfinite", state="looked", signals=signals)


def _signal(series: Observed, metric: str, how: NonFinite) -> Signal:
    rows = f"{how.found} of {counted(how.rows, 'logged step')} {'is' if how.found == 1 else 'are'} NaN or Inf"
    # a step without a gradient counts in nothing; a metric that is not finite lacks its own value only
    out = "the step is" if how.found == 1 else "these steps are"
    out += " left out of every statistic" if metric == "gradient" else f" left out of statistics of {metric}"
    at = _steps(series, metric)
    if how.since is not None:
        before = [step for step in at if step < how.since]
        valid = (f"only steps before {how.since} count" if before else "no step counts") if metric == "gradient" else "it never recovers"
        says = f"{metric} is not finite from step {how.since} to the end of the log ({rows}): {valid}"
    else:
        where = f"at {stretch(how.first or 0, how.last or 0)}" if how.first == how.last else f"between steps {how.first} and {how.last}"
        ends = how.last == at[-1]
        after = f", the last of the log, where fewer than {PERSISTENT_STEPS} such rows in a row are not called persistent" if ends else ""
        says = f"{metric} is not finite {where}{after if ends else ' and recovers'} ({rows}); {out}"
    return Signal(
        detector="nonfinite",
        metric=metric,
        severity="severe" if how.kind == "persistent" else "warning",
        says=says,
        onset=how.since if how.since is not None else how.first,
        detected=how.first if how.since is None else [step for step in at if step >= how.since][PERSISTENT_STEPS - 1],
        last=how.last,
        value=how.share,
        evidence={"class": how.kind, "count": how.found, "rows": how.rows, "first": how.first},
    )


def _steps(series: Observed, metric: str) -> list[int]:
    """Steps at which the metric was logged, in order."""
    names = (*GRADIENT_METRICS, SKIPPED) if metric == "gradient" else (metric,)
    return sorted({step for name in names for step, _, _ in series.cells(name)})
