"""Gradients that should be there and are not: a norm of exactly 0 although rewards differ within groups, or an adapter that never changed.

Rewards that differ give advantages, and advantages give a gradient; where it is exactly 0, no trained weight is connected with the loss
(or every completion of the step was masked, so steps in which all were cut are left out). That is not collapse: the rewards are fine. At
the end of a run the adapter itself is looked at: a second factor (lora_B) of zeros alone means that the model is the one it began with.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed

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
    norms = series.values("grad_norm")
    spread = _spread(series)
    if not norms or spread is None:
        if series.adapter != "unknown":
            return Detection(detector=NAME, state="looked", signals=unchanged)
        missing = "grad_norm was not logged" if not norms else "no spread of rewards within groups was logged"
        return Detection(detector=NAME, state="not_observable", reason=missing)
    taught = [(step, norm) for step, norm in norms if step in spread]
    if len(taught) < settings.steps:
        if series.adapter != "unknown":
            return Detection(detector=NAME, state="looked", signals=unchanged)
        reason = (
            f"rewards differ within groups in {len(taught)} logged steps, {settings.steps} are needed: a zero gradient is right elsewhere"
        )
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    dead = [step for step, norm in taught if norm == 0.0]
    signals = unchanged
    if len(dead) > settings.share * len(taught):
        signals = (_dead(series, dead, len(taught)), *signals)
    return Detection(detector=NAME, state="looked", signals=signals)


def _spread(series: Observed) -> set[int] | None:
    """Steps in which rewards differ within a group and not every completion was cut; None when nothing tells."""
    silent, ranges = dict(series.values("zero_signal_share")), dict(series.values("group_range"))
    if not silent and not ranges:
        return None
    batch, cut = dict(series.values("reward_std")), dict(series.values("truncated"))
    differing = {step for step, value in ranges.items() if value > 0}
    differing |= {step for step, share in silent.items() if step not in ranges and share < 1 and batch.get(step, 1.0) > 0}
    return {step for step in differing if cut.get(step, 0.0) < 1}


def _dead(series: Observed, dead: list[int], taught: int) -> Signal:
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
