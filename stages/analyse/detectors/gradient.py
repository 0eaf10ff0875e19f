"""Gradients that should be there and are not: a norm of exactly 0 although rewards differ within groups, or an adapter that never changed.

Rewards that differ give advantages, and advantages give a gradient; where it is exactly 0, no trained weight is connected with the loss
(or every completion of the step was masked, so steps in which all were cut are left out). That is not collapse: the rewards are fine. An
adapter may also be lost on the way, such as at a resume: zero gradients that follow each other over a tenth of the target steps are told
whatever their share. Where no spread within groups was logged, a gradient of 0 from first to last is told all the same, and that its reason
is open. Steps whose reward is null taught nothing, whatever was logged as their spread. At the end of a run the adapter
itself is looked at: a second factor (lora_B) of zeros alone means that the model is the one it began with.
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
        if norms.n >= settings.steps and not norms.values.any() and not series.unscored:
            return Detection(detector=NAME, state="looked", reason=missing, signals=(_still(settings, series, norms), *unchanged))
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
    lost = _longest(taught)
    if len(dead) / taught.n > settings.share:
        signals = (_dead(settings, series, dead, taught), *signals)
    elif len(lost) >= settings.steps and lost[-1] - lost[0] + 1 >= series.window() and _dead_between(norms, lost):
        signals = (_lost(settings, series, lost, dead, taught), *signals)
    return Detection(detector=NAME, state="looked", signals=signals)


def _longest(taught: Rows) -> list[int]:
    """The longest streak of steps with a gradient of 0 among those that should have one; of equally long ones the last."""
    if taught.values.all():
        return []
    first, best = 0, slice(0, 0)
    for place, norm in enumerate(taught.values.tolist()):
        if norm != 0.0:
            first = place + 1
        elif place + 1 - first >= best.stop - best.start:
            best = slice(first, place + 1)
    found: list[int] = taught.steps[best].tolist()
    return found


def _dead_between(norms: Rows, lost: list[int]) -> bool:
    """Whether no logged step of the streak has a gradient: weights that get one elsewhere in it are connected."""
    return not norms.values[(norms.steps >= lost[0]) & (norms.steps <= lost[-1])].any()


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


def _dead(settings: Settings, series: Observed, dead: list[int], taught: Rows) -> Signal:
    says = f"the gradient is exactly 0 in {len(dead)} of the {counted(taught.n, 'step')} whose rewards differ within groups: "
    says += "no trained weight is connected with the loss (this is not collapse)"
    if series.imported and not series.rows("group_range").n:
        says += ", unless rewards were scaled by the batch: then a logged frac_reward_zero_std of 0 does not see that groups are constant"
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


def _lost(settings: Settings, series: Observed, lost: list[int], dead: list[int], taught: Rows) -> Signal:
    """A streak without a gradient in a run that has one elsewhere."""
    to_the_end = lost[-1] == int(taught.steps[-1])
    says = f"the gradient is exactly 0 in all {len(lost)} steps from {lost[0]} to {lost[-1]} whose rewards differ within groups, "
    says += f"and is not in {taught.n - len(dead)} others: the trained weights lost their connection with the loss"
    says += " (this is not collapse)" if to_the_end else " for a while (this is not collapse)"
    return Signal(
        detector=NAME,
        metric="grad_norm",
        severity="severe" if to_the_end else "warning",
        says=says,
        onset=lost[0],
        detected=next(step for step in lost[settings.steps - 1 :] if step - lost[0] + 1 >= series.window()),
        last=lost[-1],
        value=len(dead) / taught.n,
        evidence={"k": len(dead), "n": taught.n, "streak": len(lost)},
    )


def _still(settings: Settings, series: Observed, norms: Rows) -> Signal:
    """No gradient at all, and nothing that says whether there should have been one."""
    says = f"the gradient is exactly 0 in all {norms.n} logged steps, so nothing was learnt from the loss"
    if series.logs("reward"):
        says += (
            "; without a logged spread of rewards within groups it is open whether no group had a signal or no trained weight is connected"
        )
    if series.null_control:
        says += "; expected for a null control"
    return Signal(
        detector=NAME,
        metric="gradient",
        severity="info" if series.null_control else "warning",
        says=says,
        onset=int(norms.steps[0]),
        detected=int(norms.steps[settings.steps - 1]),
        last=int(norms.steps[-1]),
        value=1.0,
        evidence={"k": norms.n, "n": norms.n},
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
