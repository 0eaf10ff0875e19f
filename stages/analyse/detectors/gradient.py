"""Gradients that should be there and are not: a norm of exactly 0 although rewards differ within groups, or an adapter that never changed.

Rewards that differ give advantages, and advantages give a gradient; where it is exactly 0, no trained weight is connected with the loss
(or every completion of the step was masked, so steps in which all were cut are left out). That is not collapse: the rewards are fine. At
the end of a run the adapter itself is looked at: a second factor (lora_B) of zeros alone means that the model is the one it began with.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.amounts import counted
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
        missing = "no spread of rewards within groups was logged" if norms.n else series.why_none("grad_norm")
        if series.adapter != "unknown":
            return Detection(detector=NAME, state="looked", reason=f"only the adapter was looked at: {missing}", signals=unchanged)
        return Detection(detector=NAME, state="not_observable", reason=missing)
    if taught.n < settings.steps:
        reason = f"rewards differ within groups in {counted(taught.n, 'logged step')}, {settings.steps} are needed"
        if series.adapter != "unknown":
            return Detection(detector=NAME, state="looked", reason=f"only the adapter was looked at: {reason}", signals=unchanged)
        reason += ": a zero gradient is right elsewhere"
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    dead = taught.steps[taught.values == 0.0].tolist()
    signals = unchanged
    if len(dead) / taught.n > settings.share:
        signals = (_dead(settings, dead, taught), *signals)
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


def _dead(settings: Settings, dead: list[int], taught: Rows) -> Signal:
    says = f"the gradient is exactly 0 in {len(dead)} of the {counted(taught.n, 'step')} whose rewards differ within groups: "
    says += "no trained weight is connected with the loss (this is not collapse)"
    return Signal(
        detector=NAME,
        metric="grad_norm",
        severity="severe",
        says=says,
        onset=dead[0],
        detected=_knowable(settings, taught),
        last=dead[-1],
        value=len(dead) / taught.n,
        evidence={"k": len(dead), "n": taught.n},
    )


def _knowable(settings: Settings, taught: Rows) -> int:
    """First step up to which enough steps differ within groups, and more than the share of them have no gradient."""
    zeros = 0
    for n, (step, norm) in enumerate(taught.pairs(), 1):
        zeros += norm == 0.0
        if n >= settings.steps and zeros / n > settings.share:
            return step
    return int(taught.steps[-1])


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
