"""Gradients that should be there and are not: a norm of exactly 0 although rewards differ within groups, or an adapter that never changed.

Rewards that differ give advantages, and advantages give a gradient; where it is exactly 0, no trained weight is connected with the loss (or
every completion of the step was masked, so steps in which all were cut are left out). A row of a log with a stride may hold a mean of
shares over the stride beside the gradient of its last step: it tells only when the mean is too small for one step without any signal. That
is not collapse: the rewards are fine. An adapter may also be lost on the way, such as at a resume: zero gradients that follow each other
over a tenth of the target steps count whatever their share. Where no spread within groups was logged, a gradient of 0 from first to last is
reported too, and that its reason is open. Steps whose reward is null taught nothing, whatever was logged as their spread. At the end of a
run the adapter itself is looked at: a second factor (lora_B) of zeros alone means that the model is the one it began with.
"""

from stages.analyse.signals import OWN, Answer, Event, NotApplicable, NotObservable, Run, Series, Thresholds, counted, threshold

_OPEN = "; without a logged spread of rewards within groups it is open whether no group had a signal or no trained weight is connected"
_SCALED = ", unless rewards were scaled by the batch: then a logged frac_reward_zero_std of 0 does not see that groups are constant"


class Settings(Thresholds):
    share: float = threshold(0.5, "share of steps", f"{OWN}; one such step may be a masked batch", gt=0, lt=1)
    """A larger share of zero gradients among the steps whose rewards differ within groups is severe."""
    steps: int = threshold(3, "steps", ge=1)
    """So many steps with differing rewards are needed to tell."""


def detect(settings: Settings, run: Run) -> Answer:
    """At most one event for the gradient and one for the adapter."""
    unchanged = []
    if run.adapter == "zero":
        says = "the adapter at the end is all zeros where it joins the model (lora_B), so the model is the one that training began with"
        unchanged = [Event("adapter", "severe", says, None, (1, None, None), {"lora_B": "all zeros"}, null="expected")]
    norms = run.values("grad_norm")
    taught, needed = _taught(run, norms), settings.steps
    shares = run.values("zero_signal_share")
    hidden = ""
    if run.stride > 1 and taught is not None and (shares.empty or (shares < 1).any()):
        hidden = f"not observable at this stride: a row holds the gradient of one step beside shares that may be of {run.stride}"
    if norms.empty or taught is None or (hidden and len(taught) < needed):
        missing = run.why_none("grad_norm") if norms.empty else hidden or "no spread of rewards within groups was logged"
        if len(norms) >= needed and not norms.any() and run.unscored.empty:
            says = f"the gradient is exactly 0 in all {len(norms)} logged steps, so nothing was learnt from the loss"
            says += f"; which of these steps had a spread of rewards is {hidden}" if hidden else _OPEN if run.logs("reward") else ""
            dates, evidence = (norms.index[0], norms.index[needed - 1], norms.index[-1]), {"k": len(norms), "n": len(norms)}
            yield Event("gradient", "warning", says, 1.0, dates, evidence, null="expected")
            yield from unchanged
            yield missing
            return
    elif len(taught) < needed:
        missing = f"rewards differ within groups in {counted(len(taught), 'logged step')}, {needed} are needed"
    else:
        yield from _dead(settings, run, norms, taught)
        yield from unchanged
        return
    if run.adapter != "unknown":
        yield from unchanged
        yield f"only the adapter was looked at: {missing}"
    elif norms.empty or taught is None or hidden:
        raise NotObservable(missing)
    else:
        raise NotApplicable(f"{missing}: a zero gradient is right elsewhere")


def _taught(run: Run, norms: Series) -> Series | None:
    """Norms of the steps in which rewards differ within a group and not every completion was cut; None when nothing tells."""
    from stages.analyse.frames import usual_distance

    ranges, silent = run.values("group_range"), run.values("zero_signal_share")
    if ranges.empty and silent.empty:
        return None
    steps = norms.index
    spread = ranges.reindex(steps)
    # one step alone of the k that a row may be a mean of makes a share of 1/k; of a range that is not 0 no single step is known
    stride = max(run.stride, usual_distance(silent.index)) if run.imported else run.stride
    one_step = 1.0 if stride == 1 else 1 / steps.to_series().diff().fillna(stride).clip(lower=stride) - 1e-6
    differing = (silent.reindex(steps) < one_step) & (run.values("reward_std").reindex(steps).fillna(1.0) > 0)
    differing = (differing & spread.isna()) | (spread > 0) if stride == 1 else differing
    return norms[differing & (run.values("truncated").reindex(steps).fillna(0.0) < one_step)]


def _dead(settings: Settings, run: Run, norms: Series, taught: Series) -> Answer:
    """Too large a share of steps without a gradient, or a streak of them in a run that has one elsewhere."""
    zero = taught == 0.0
    dead, share = taught.index[zero], zero.mean()
    evidence = {"k": len(dead), "n": len(taught)}
    if share > settings.share:
        says = f"the gradient is exactly 0 in {len(dead)} of the {counted(len(taught), 'step')} whose rewards differ within groups: "
        says += "no trained weight is connected with the loss (this is not collapse)"
        says += _SCALED if run.imported and run.values("group_range").empty else ""
        shares = zero.expanding(settings.steps).mean()
        knowable = [*shares.index[shares > settings.share], taught.index[-1]][0]
        yield Event("grad_norm", "severe", says, share, (dead[0], knowable, dead[-1]), evidence)
        return
    streaks = [part.index for _, part in taught[zero].groupby((~zero).cumsum()[zero])]
    lost = max(reversed(streaks), key=len, default=dead)
    if len(lost) < settings.steps or lost[-1] - lost[0] + 1 < run.window() or norms.loc[lost[0] : lost[-1]].any():
        return  # the last: a step between them whose rewards do not differ has a gradient
    to_the_end = lost[-1] == taught.index[-1]
    says = f"the gradient is exactly 0 in all {len(lost)} steps from {lost[0]} to {lost[-1]} whose rewards differ within groups, "
    says += f"and is not in {len(taught) - len(dead)} others: the trained weights lost their connection with the loss"
    says += " (this is not collapse)" if to_the_end else " for a while (this is not collapse)"
    knowable = next(int(step) for step in lost[settings.steps - 1 :] if step - lost[0] + 1 >= run.window())
    dates = (lost[0], knowable, lost[-1])
    yield Event("grad_norm", "severe" if to_the_end else "warning", says, share, dates, evidence | {"streak": len(lost)}, "lost")
