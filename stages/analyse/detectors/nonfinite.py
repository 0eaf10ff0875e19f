"""Non-finite values: the class `none`, `transient` or `persistent` of each metric, with count, first, last and share.

A step whose gradient is NaN counts even if its loss reads 0.0: trainers log NaN losses as 0.0. Persistent from step s means that
no later row is finite, and it ends the run's valid range at s - 1.
"""

from __future__ import annotations

from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed
from stages.contracts.series import GRADIENT_METRICS, SKIPPED, NonFinite


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
    signals = tuple(_signal(metric, how) for metric, how in found.items() if how.kind != "none")
    return Detection(detector="nonfinite", state="looked", signals=signals)


def _signal(metric: str, how: NonFinite) -> Signal:
    rows = f"{how.found} of {how.rows} logged steps are NaN or Inf"
    if how.kind == "persistent":
        valid = f"only steps before {how.since} count" if metric == "gradient" else "it never recovers"
        says = f"{metric} is not finite from step {how.since} to the end of the log ({rows}): {valid}"
    else:
        where = f"at step {how.first}" if how.first == how.last else f"between steps {how.first} and {how.last}"
        says = f"{metric} is not finite {where} and recovers ({rows}); these steps are left out of every statistic"
        if how.last == how.first and how.found == 1:
            says = f"{metric} is not finite {where} ({rows}); the step is left out of every statistic"
    return Signal(
        detector="nonfinite",
        metric=metric,
        severity="severe" if how.kind == "persistent" else "warning",
        says=says,
        onset=how.since if how.since is not None else how.first,
        detected=how.first,
        last=how.last,
        value=how.share,
        evidence={"class": how.kind, "count": how.found, "rows": how.rows, "first": how.first},
    )
