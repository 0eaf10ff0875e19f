"""The fit of PPO's value head at the end: its explained variance 1 - E(return - value)^2 / Var(return).

1 is a perfect guess and 0 what a constant guess reaches; below 0 the head takes no variance out of the advantages but adds some.
"""

from __future__ import annotations

from statistics import median

from pydantic import Field

from stages.contracts.amounts import below, stretch
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
        some = series.numbers(METRIC) or any(state == "nonfinite" for _, _, state in series.cells(METRIC))
        reason = series.why_none(METRIC) if some else "the returns did not vary, so there was nothing to explain"
        return Detection(detector=NAME, state="not_observable", reason=reason)
    last = rows.steps[-settings.window :].tolist()
    found = median(rows.values[-settings.window :].tolist())
    if not below(found, settings.below):
        return Detection(detector=NAME, state="looked")
    says = (
        f"the value head explained less of the returns than {_bar(settings)}: median explained variance {found:.2g} "
        f"in {stretch(last[0], last[-1])}"
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


def _bar(settings: Settings) -> str:
    return "a constant does" if settings.below == 0 else f"the declared {settings.below:g} (a constant explains 0)"
