"""The fit of PPO's value head at the end: below 0 it explains less of the returns than a constant would, and advantages are noise."""

from __future__ import annotations

from statistics import median

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed

NAME = "value_fit"
METRIC = "value.explained_variance"


class Settings(Frozen):
    window: int = Field(
        20,
        ge=3,
        description="Last logged steps that are looked at.",
        json_schema_extra={"unit": "logged rows", "source": "octavo's own choice"},
    )
    below: float = Field(
        0.0,
        le=1,
        description="A median explained variance below this is a warning.",
        json_schema_extra={"unit": "part of the variance", "source": "0 is what a constant explains"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """At most one signal. The median is taken because one update with hardly any variance gives a value far below zero."""
    if not series.metrics:
        return Detection(detector=NAME, state="not_observable", reason="nothing was logged")
    needed = METRIC if series.imported else "loss.value"  # our own log lacks METRIC also where returns do not vary
    if not series.logs(needed):
        return series.lacks(NAME, needed, "no value head was trained")
    rows = series.rows(METRIC)
    if not rows.n:
        return Detection(detector=NAME, state="not_observable", reason="the returns did not vary, so there was nothing to explain")
    last = rows.steps[-settings.window :].tolist()
    found = median(rows.values[-settings.window :].tolist())
    if found >= settings.below:
        return Detection(detector=NAME, state="looked")
    says = (
        f"the value head explained less of the returns than a constant does: median explained variance {found:.2g} "
        f"in steps {last[0]}-{last[-1]}"
    )
    signal = Signal(
        detector=NAME,
        metric=METRIC,
        severity="info" if series.null_control else "warning",
        says=says,
        onset=last[0],
        last=last[-1],
        value=found,
        evidence={"rows": len(last)},
    )
    return Detection(detector=NAME, state="looked", signals=(signal,))
