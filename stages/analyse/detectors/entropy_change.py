"""Entropy change: the mean token entropy of the last window as a ratio to the run's own first window.

Entropies of different models and prompts are not comparable, so the rule knows no good value. An absolute band is used only where a
profile or a spec sets one, with its source.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.amounts import above, below
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed

NAME = "entropy_change"
METRIC = "entropy"


class Settings(Frozen):
    fall_below: float = Field(
        0.2,
        gt=0,
        lt=1,
        description="A smaller ratio of last to first window is a warning: little is explored any more.",
        json_schema_extra={"unit": "ratio", "source": "octavo's own choice"},
    )
    rise_above: float = Field(
        3.0,
        gt=1,
        description="A larger ratio of last to first window is a warning: the policy loses its shape.",
        json_schema_extra={"unit": "ratio", "source": "octavo's own choice"},
    )
    lowest: float | None = Field(
        None,
        ge=0,
        description="A lower mean of the last window is a warning; null: not used.",
        json_schema_extra={"unit": "nats per token", "source": "none: set only by a profile or a spec, which names its own"},
    )
    highest: float | None = Field(
        None,
        ge=0,
        description="A higher mean of the last window is a warning; null: not used.",
        json_schema_extra={"unit": "nats per token", "source": "none: set only by a profile or a spec, which names its own"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """At most one signal."""
    if not series.logs(METRIC):
        return Detection(detector=NAME, state="not_observable", reason="entropy was not logged")
    before, after = series.ends(METRIC)
    if not before or not after:
        which = "last" if before else "first"
        return Detection(detector=NAME, state="not_observable", reason=f"entropy has no value in the {which} window")
    first, last = sum(before) / len(before), sum(after) / len(after)
    band = _outside(settings, last)
    if (first <= 0 or last < 0) and not band:
        which = f"{first:.3g} in the first window" if first <= 0 else f"{last:.3g} in the last window"
        return Detection(detector=NAME, state="not_applicable", reason=f"entropy is {which}: no ratio says anything")
    ratio = last / first if first > 0 else None
    if ratio is not None and not below(ratio, settings.fall_below) and not above(ratio, settings.rise_above) and not band:
        return Detection(detector=NAME, state="looked")
    says = f"entropy went from {first:.3g} to {last:.3g} nats per token (mean over {_ends(series.window())}"
    says += f", ratio {ratio:.2g})" if ratio is not None else ")"
    signal = Signal(
        detector=NAME,
        metric=METRIC,
        severity="info" if series.null_control else "warning",
        says=says + band,
        onset=_onset(settings, series, first),
        last=int(series.rows(METRIC).steps[-1]),
        value=ratio,
        evidence={"first": first, "last": last} | ({"outside": band.removeprefix(", ")} if band else {}),
    )
    return Detection(detector=NAME, state="looked", signals=(signal,))


def _ends(window: int) -> str:
    return "the first step, then over the last" if window == 1 else f"the first {window} steps, then over the last {window}"


def _outside(settings: Settings, last: float) -> str:
    if settings.lowest is not None and below(last, settings.lowest):
        return f", below the declared {settings.lowest:g}"
    if settings.highest is not None and above(last, settings.highest):
        return f", above the declared {settings.highest:g}"
    return ""


def _onset(settings: Settings, series: Observed, first: float) -> int:
    """First step of the rows that lie outside the band without a break to the end, at the latest that of the last window."""
    steps, values = series.rows(METRIC)
    inside = (values >= settings.fall_below * first) & (values <= settings.rise_above * first) & (first > 0)
    if settings.lowest is not None:
        inside &= values >= settings.lowest
    if settings.highest is not None:
        inside &= values <= settings.highest
    back = [int(step) for step in steps[inside][-1:]]
    window = series.target_steps - series.window()
    return int(steps[steps > (min(back[0], window) if back else 0)][0])
