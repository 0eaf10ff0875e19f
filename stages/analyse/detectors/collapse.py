"""Collapse: a streak of steps without any signal, at least `patience` steps long.

Patience counts steps, not rows. Onset (first step of the streak) and detection (the step at which a live detector could first
have known) are reported apart. A log that is too coarse to see a streak of that length is refused, never called healthy, and a streak does
not go on over rows that are further apart than a third of the patience.
Where no spread within groups was logged, a batch without any spread (reward_std exactly 0) has no group with one.
"""

from stages.analyse.signals import Answer, Event, NotApplicable, NotObservable, Run, Thresholds, check_shares, counted, threshold
from stages.rules import stretch

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


def detect(settings: Settings, run: Run) -> Answer:
    """One event a streak."""
    from stages.analyse.frames import SILENT, usual_distance

    values, patience = run.values(settings.metric), settings.patience
    whole_batch = settings.metric == SILENT and values.empty and len(run.flat) > 0
    values = run.flat if whole_batch else values
    if values.empty:
        raise NotObservable(run.why_none(settings.metric))
    if settings.at_least is None and settings.below is None:
        raise NotApplicable("neither `at_least` nor `below` says what a step without a signal is")
    if settings.metric == SILENT:
        check_shares(run, settings.metric)
    silent = values.ge(settings.at_least if settings.at_least is not None else float("inf"))
    if settings.below is not None:
        silent |= values < settings.below
    stride, first, last = usual_distance(values.index), int(values.index[0]), int(values.index[-1])
    if stride > patience / 3:
        rows = f"; {silent.sum()} of {counted(len(values), 'row')} had no signal" if silent.any() else ""
        raise NotObservable(f"logged every {stride} steps, which is too coarse for a streak of {patience} steps{rows}")
    if last - first + 1 < patience:
        raise NotApplicable(f"the log covers {stretch(first, last)}: a streak of {patience} steps does not fit")
    gaps = values.index.to_series().diff()
    wide = gaps > patience / 3
    bounds = [f"at least {settings.at_least:g}"] if settings.at_least is not None else []
    bounds += [f"below {settings.below:g}"] if settings.below is not None else []
    rule = f"{settings.metric} {' or '.join(bounds)}"
    kind = "" if rule == "zero_signal_share at least 1" else "declared"
    rule = "reward_std exactly 0, so no group of the batch has a spread" if whole_batch else rule
    for _, part in silent.groupby((silent.ne(silent.shift()) | wide).cumsum()):
        steps, onset, end = part.index, int(part.index[0]), int(part.index[-1])
        if not part.iloc[0] or end - onset + 1 < patience:
            continue
        after = wide[wide.index > end].iloc[:1]  # the next logged step, when there is one, and whether rows are missing before it
        detected = int(steps[steps >= onset + patience - 1][0])
        length = end - onset + 1
        rows = f", in each of {len(steps)} rows" if stride > 1 else ""
        says = f"no signal in {stretch(onset, end)} ({counted(length, 'step')}{rows}: {rule}); a live detector knows at step {detected}; "
        returned = f"a signal returned at step {after.index[0]}" if len(after) else "it lasts to the end of the log"
        says += ("rows are missing after it" if after.any() else returned) + (f"; logged every {stride} steps" if stride > 1 else "")
        recovered = len(after) > 0 and not after.any()
        evidence = {"rows": len(steps), "stride": stride, "patience": patience, "recovered": recovered, "rule": rule}
        severity = "warning" if len(after) else "severe"
        yield Event(settings.metric, severity, says, float(length), (onset, detected, end), evidence, kind, "expected")
    if stride > 1:
        yield f"logged every {stride} steps: a streak of fewer than {patience + 3 * (stride - 1)} steps may lie between the rows"
    if whole_batch:
        yield "no spread within groups was logged: where the batch has one, groups without it are not observable"
    if unseen := int((gaps[wide] - 1).sum()):
        yield f"{counted(unseen, 'step')} in {counted(int(wide.sum()), 'gap')} between rows were not seen: no streak goes over them"
