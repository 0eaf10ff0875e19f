"""Gradients that should be there and are not: a norm of exactly 0 although rewards differ within groups, or an adapter that never changed.

Rewards that differ give advantages, and advantages give a gradient; where it is exactly 0, no trained weight is connected with the loss
(or every completion of the step was masked, so steps in which all were cut are left out). That is not collapse: the rewards are fine. An
adapter may also be lost on the way, such as at a resume: zero gradients that follow each other over a tenth of the target steps count
whatever their share. Where no spread within groups was logged, a gradient of 0 from first to last is reported too, and that its reason
is open. Steps whose reward is null taught nothing, whatever was logged as their spread. At the end of a run the adapter
itself is looked at: a second factor (lora_B) of zeros alone means that the model is the one it began with.
"""

from __future__ import annotations

from stages.analyse.signals import OWN, Index, Run, Series, Thresholds, counted, looked, not_applicable, not_observable, signal, threshold
from stages.contracts.health import Detection, Signal

NAME = "gradient"


class Settings(Thresholds):
    share: float = threshold(0.5, "share of steps", f"{OWN}; one such step may be a masked batch", gt=0, lt=1)
    """A larger share of zero gradients among the steps whose rewards differ within groups is severe."""
    steps: int = threshold(3, "steps", ge=1)
    """So many steps with differing rewards are needed to tell."""


def detect(settings: Settings, run: Run) -> Detection:
    """At most one signal for the gradient and one for the adapter."""
    unchanged = [_unchanged(run)] if run.adapter == "zero" else []
    norms = run.values("grad_norm")
    taught = _taught(run, norms)
    if norms.empty or taught is None:
        missing = run.why_none("grad_norm") if norms.empty else "no spread of rewards within groups was logged"
        if len(norms) >= settings.steps and not norms.any() and run.unscored.empty:
            return looked(NAME, _still(settings, run, norms), *unchanged, reason=missing)
        if run.adapter != "unknown":
            return looked(NAME, *unchanged, reason=f"only the adapter was looked at: {missing}")
        return not_observable(NAME, missing)
    if len(taught) < settings.steps:
        reason = f"rewards differ within groups in {counted(len(taught), 'logged step')}, {settings.steps} are needed"
        if run.adapter != "unknown":
            return looked(NAME, *unchanged, reason=f"only the adapter was looked at: {reason}")
        return not_applicable(NAME, f"{reason}: a zero gradient is right elsewhere")
    dead, lost = taught.index[taught == 0.0], _longest(taught)
    signals = []
    if len(dead) / len(taught) > settings.share:
        signals = [_dead(settings, run, dead, taught)]
    elif (
        len(lost) >= settings.steps
        and lost[-1] - lost[0] + 1 >= run.window()
        and not norms.loc[lost[0] : lost[-1]].any()  # also at the steps between whose rewards do not differ
    ):
        signals = [_lost(settings, run, lost, len(dead), taught)]
    return looked(NAME, *signals, *unchanged)


def _taught(run: Run, norms: Series) -> Series | None:
    """Norms of the steps in which rewards differ within a group and not every completion was cut; None when nothing tells."""
    ranges, silent = run.values("group_range"), run.values("zero_signal_share")
    if ranges.empty and silent.empty:
        return None
    steps = norms.index
    spread = ranges.reindex(steps)
    differing = (silent.reindex(steps) < 1) & (run.values("reward_std").reindex(steps).fillna(1.0) > 0) & spread.isna()
    differing |= spread > 0
    return norms[differing & (run.values("truncated").reindex(steps).fillna(0.0) < 1)]


def _longest(taught: Series) -> Index:
    """The longest streak of steps with a gradient of 0 among those that should have one; of equally long ones the last."""
    zero = taught == 0.0
    streaks = [part.index for _, part in taught[zero].groupby((~zero).cumsum()[zero])]
    return max(reversed(streaks), key=len) if streaks else taught.index[:0]


def _dead(settings: Settings, run: Run, dead: Index, taught: Series) -> Signal:
    says = f"the gradient is exactly 0 in {len(dead)} of the {counted(len(taught), 'step')} whose rewards differ within groups: "
    says += "no trained weight is connected with the loss (this is not collapse)"
    if run.imported and run.values("group_range").empty:
        says += ", unless rewards were scaled by the batch: then a logged frac_reward_zero_std of 0 does not see that groups are constant"
    shares = (taught == 0.0).expanding(settings.steps).mean()
    knowable = shares.index[shares > settings.share]
    evidence = {"k": len(dead), "n": len(taught)}
    dates = (dead[0], knowable[0] if len(knowable) else taught.index[-1], dead[-1])
    return signal(NAME, run, "grad_norm", "severe", says, len(dead) / len(taught), dates, evidence)


def _lost(settings: Settings, run: Run, lost: Index, dead: int, taught: Series) -> Signal:
    """A streak without a gradient in a run that has one elsewhere."""
    to_the_end = lost[-1] == taught.index[-1]
    says = f"the gradient is exactly 0 in all {len(lost)} steps from {lost[0]} to {lost[-1]} whose rewards differ within groups, "
    says += f"and is not in {len(taught) - dead} others: the trained weights lost their connection with the loss"
    says += " (this is not collapse)" if to_the_end else " for a while (this is not collapse)"
    severity = "severe" if to_the_end else "warning"
    evidence = {"k": dead, "n": len(taught), "streak": len(lost)}
    dates = (lost[0], next(int(step) for step in lost[settings.steps - 1 :] if step - lost[0] + 1 >= run.window()), lost[-1])
    return signal(NAME, run, "grad_norm", severity, says, dead / len(taught), dates, evidence, kind="lost")


def _still(settings: Settings, run: Run, norms: Series) -> Signal:
    """No gradient at all, and nothing that says whether there should have been one."""
    says = f"the gradient is exactly 0 in all {len(norms)} logged steps, so nothing was learnt from the loss"
    if run.logs("reward"):
        says += (
            "; without a logged spread of rewards within groups it is open whether no group had a signal or no trained weight is connected"
        )
    evidence = {"k": len(norms), "n": len(norms)}
    dates = (norms.index[0], norms.index[settings.steps - 1], norms.index[-1])
    return signal(NAME, run, "gradient", "warning", says, 1.0, dates, evidence, null="expected")


def _unchanged(run: Run) -> Signal:
    says = "the adapter at the end is all zeros where it joins the model (lora_B), so the model is the one that training began with"
    evidence = {"lora_B": "all zeros"}
    return signal(NAME, run, "adapter", "severe", says, dates=(1, None, None), evidence=evidence, null="expected")
