"""Collapse: a streak of steps without any signal, at least `patience` steps long.

Patience counts steps, not rows. Onset (first step of the streak) and detection (the step at which a live detector could first
have known) are reported apart. A log that is too coarse to see a streak of that length is refused, never called healthy, and a streak does
not go on over rows that are further apart than a third of the patience.
"""

from stages.analyse.signals import Index, Run, Thresholds, counted, looked, not_applicable, not_observable, signal, threshold
from stages.contracts.health import Detection, Signal
from stages.rules import stretch

NAME = "collapse"
NEEDS_COMPLETIONS = True


class Settings(Thresholds):
    metric: str = threshold("zero_signal_share", "name", "within-group spread, which is what GRPO compares")
    """Metric that tells whether a step had a signal."""
    at_least: float | None = threshold(1.0, "unit of the metric", "all groups constant: the advantage of every completion is zero")
    """A step has no signal when the metric is at least this; null: not used."""
    below: float | None = threshold(None, "unit of the metric", "set by the spec; a prover report used reward_std below 0.05")
    """A step has no signal when the metric is below this (for imported logs that hold only reward_std); null: not used."""
    patience: int = threshold(15, "steps", "early stopping of a prover report (patience 15)", ge=1)
    """Shortest streak that counts."""


def detect(settings: Settings, run: Run) -> Detection:
    """One signal a streak."""
    from stages.analyse.frames import usual_distance

    values, patience = run.values(settings.metric), settings.patience
    if values.empty:
        return not_observable(NAME, run.why_none(settings.metric))
    if settings.at_least is None and settings.below is None:
        return not_applicable(NAME, "neither `at_least` nor `below` says what a step without a signal is")
    if settings.metric == "zero_signal_share" and (reason := run.no_share(settings.metric)):
        return not_applicable(NAME, reason)
    stride = usual_distance(values.index)
    if stride > patience / 3:
        return not_observable(NAME, f"logged every {stride} steps, which is too coarse for a streak of {patience} steps")
    first, last = int(values.index[0]), int(values.index[-1])
    if last - first + 1 < patience:
        return not_applicable(NAME, f"the log covers {stretch(first, last)}: a streak of {patience} steps does not fit")
    gaps = values.index.to_series().diff()
    wide = gaps > max(stride, patience / 3)
    silent = values.ge(settings.at_least if settings.at_least is not None else float("inf"))
    if settings.below is not None:
        silent |= values < settings.below
    signals = []
    for _, part in silent.groupby((silent.ne(silent.shift()) | wide).cumsum()):
        if part.iloc[0] and part.index[-1] - part.index[0] + 1 >= patience:
            after = wide[wide.index > part.index[-1]]
            signals.append(_signal(settings, run, part.index, after.index[:1].tolist(), bool(after.iloc[:1].any()), stride))
    unseen = int((gaps[wide] - 1).sum())
    lost = f"{counted(unseen, 'step')} in {counted(int(wide.sum()), 'gap')} between rows were not seen: no streak goes over them"
    return looked(NAME, *signals, reason=lost if unseen else "")


def _signal(settings: Settings, run: Run, steps: Index, after: list[int], gap: bool, stride: int) -> Signal:
    """`steps`: the streak's. `after`: the next logged step, when there is one. `gap`: rows are missing between the two."""
    onset, last = int(steps[0]), int(steps[-1])
    detected, length = int(steps[steps >= onset + settings.patience - 1][0]), last - onset + 1
    bounds = [f"at least {settings.at_least:g}"] if settings.at_least is not None else []
    bounds += [f"below {settings.below:g}"] if settings.below is not None else []
    rule = f"{settings.metric} {' or '.join(bounds)}"
    says = f"no signal in {stretch(onset, last)} ({counted(length, 'step')}: {rule}); a live detector knows at step {detected}; "
    says += "rows are missing after it" if gap else f"a signal returned at step {after[0]}" if after else "it lasts to the end of the log"
    says += f"; logged every {stride} steps" if stride > 1 else ""
    recovered = bool(after) and not gap
    evidence = {"rows": len(steps), "stride": stride, "patience": settings.patience, "recovered": recovered, "rule": rule}
    kind, dates = "" if rule == "zero_signal_share at least 1" else "declared", (onset, detected, last)
    severity = "warning" if after else "severe"
    return signal(NAME, run, settings.metric, severity, says, float(length), dates, evidence, kind=kind, null="expected")
