"""Gradients that should be there and are not: a norm of exactly 0 although rewards differ within groups, or an adapter that never changed.

Rewards that differ give advantages, and advantages give a gradient; where it is exactly 0, no trained weight is connected with the loss
(or every completion of the step was masked, so steps in which all were cut are left out). That is not collapse: the rewards are fine. At
the end of a run the adapter itself is looked at: a second factor (lora_B) of zeros alone means that the model is the one it began with.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed, Rows

NAME = "gradient"


class Settings(Frozen):
    share: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="A larger share of zero gradients among the steps whose rewards differ within groups is severe.",
        json_schema_extra={"unit": "share of steps", "source": "octavo's own choice; one such step may be a masked batch"},
    )
    steps: int = Field(
        3,
        ge=1,
        description="So many steps with differing rewards are needed to tell.",
        json_schema_extra={"unit": "steps", "source": "octavo's own choice"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """At most one signal for the gradient and one for the adapter."""
    unchanged = (_unchanged(series),) if series.adapter == "zero" else ()
    norms = series.rows("grad_norm")
    taught = _taught(series, norms)
    if not norms.n or taught is None:
        if series.adapter != "unknown":
            return Detection(detector=NAME, state="looked", signals=unchanged)
        missing = "grad_norm was not logged" if not norms.n else "no spread of rewards within groups was logged"
        return Detection(detector=NAME, state="not_observable", reason=missing)
    if taught.n < settings.steps:
        if series.adapter != "unknown":
            return Detection(detector=NAME, state="looked", signals=unchanged)
        reason = f"rewards differ within groups in {taught.n} logged steps, {settings.steps} are needed: a zero gradient is right elsewhere"
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    dead = taught.steps[taught.values == 0.0].tolist()
    signals = unchanged
    if len(dead) > settings.share * taught.n:
        signals = (_dead(dead, taught.n), *signals)
    return Detection(detector=NAME, state="looked", signals=signals)


def _taught(series: Observed, norms: Rows) -> Rows | None:
    """Gradient norms of the steps in which rewards differ within a group and not every completion was cut; None when nothing tells."""
    silent, ranges = series.rows("zero_signal_share"), series.rows("group_range")
    if not silent.n and not ranges.n:
        return None
    steps, unknown = norms.steps, float("nan")
    span, share = ranges.at(steps, unknown), silent.at(steps, unknown)
    differing = (share < 1) & (series.rows("reward_std").at(steps, 1.0) > 0) & (span != span)  # no range: it is NaN
    differing |= span > 0
    return norms.kept(differing & (series.rows("truncated").at(steps, 0.0) < 1))


def _dead(dead: list[int], taught: int) -> Signal:
    says = f"the gradient is exactly 0 in {len(dead)} of {taught} steps whose rewards differ within groups: "
    says += "no trained weight is connected with the loss (this is not collapse)"
    return Signal(
        detector=NAME,
        metric="grad_norm",
        severity="severe",
        says=says,
        onset=dead[0],
        detected=dead[0],
        last=dead[-1],
        value=len(dead) / taught,
        evidence={"k": len(dead), "n": taught},
    )


def _unchanged(series: Observed) -> Signal:
    says = "the adapter at the end is all zeros where it joins the model (lora_B), so the model is the one that training began with"
    if series.null_control:
        says += "; expected for a null control"
    return Signal(
        detector=NAME,
        metric="adapter",
        severity="info" if series.null_control else "severe",
        says=says,
        onset=1,
        evidence={"lora_B": "all zeros"},
    )
