"""Changes of level: the reward or a score fell, the reward rose all at once, or completions became longer or shorter all at once.

The mean of the rows after a step is held against that of the rows before it, with as many rows as show it best, and the difference against
such differences elsewhere in the run (moving sums: Eichinger and Kirch 2018). So noise with a memory and a slow rise are no change, and a
fall is one whether it takes a step or a third of the run. The step has a 95% interval, and what else moved there is said beside it. A score
that the reward pays less for from the start, as an inverted one does, may fall. A series that becomes constant at its lowest value has
fallen, however short it was before.
"""

from __future__ import annotations

from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Any, NamedTuple

from stages.analyse.signals import OWN, Answer, Event, NotApplicable, NotObservable, Run, Series, Thresholds, threshold
from stages.contracts.history import metric_title

if TYPE_CHECKING:
    from stages.analyse.changes import Change

NEEDS_COMPLETIONS = True
LENGTH = "completion_tokens"
_BESIDE = {
    LENGTH: ("length", " tokens"),
    "truncated": ("truncation", ""),
    "entropy": ("entropy", ""),
    "kl": ("KL", ""),
    "learning_rate": ("the learning rate", ""),
}
"""What is looked at beside a change, with its words and unit."""


class Settings(Thresholds):
    errors: float = threshold(6.0, "usual differences", f"{OWN}; of healthy runs under 1% reach it", gt=0)
    """A difference of this many times its usual size in the run is a change; short logs need a little more."""
    share: float = threshold(0.2, "share of the larger level", gt=0, lt=1)
    """A smaller change is none worth a word."""
    beside: float = threshold(4.0, "usual differences", gt=0)
    """What differs by this many times its usual size at the same step has moved with it."""
    dead: float = threshold(0.1, "share of the level before", gt=0, lt=1)
    """A fall below this that lasts to the end is severe."""


class _Level(NamedTuple):
    """A change of one metric, in steps."""

    metric: str
    change: Change
    step: int
    low: int
    high: int

    def meets(self, other: _Level) -> bool:
        return self.low <= other.high and other.low <= self.high


def detect(settings: Settings, run: Run) -> Answer:
    """One event for each fall, and for each sudden change of reward and length; what moved with the reward is in its sentence."""
    from stages.analyse.changes import LEAST_ROWS

    metrics = [name for name in run.steps if name in ("reward", LENGTH) or _is_score(name)]
    series = {name: values for name in sorted(metrics, key=_rank) if len(values := run.values(name))}
    if not series:
        raise NotObservable("; ".join(map(run.why_none, metrics)) or "neither a reward, a score nor a length was logged")
    events = [*_events(settings, run, series)]
    short = [name for name, values in series.items() if len(values) < LEAST_ROWS]
    why = f"fewer than {LEAST_ROWS} rows, so that only a series that stays at its lowest value could be seen: {', '.join(short)}"
    if not events and len(short) == len(series):
        raise NotApplicable(why)
    yield from events
    yield why if short else ""


def _is_score(name: str) -> bool:
    return (
        name.endswith(".score") if name.startswith("gate.") else name.startswith("evaluation.") and name.endswith((".score", ".pass_share"))
    )


def _rank(name: str) -> int:
    return 0 if name == "reward" else 2 if name == LENGTH else 1


def _events(settings: Settings, run: Run, series: dict[str, Series]) -> Answer:
    from stages.analyse.changes import fall, jump

    seen: list[_Level] = []
    for metric, values in series.items():
        numbers, falls = values.to_numpy(), metric != LENGTH and metric not in run.paid_to_fall
        fell = fall(numbers, settings.errors, settings.share) if falls else None
        sudden = jump(numbers, settings.errors, settings.share) if metric in ("reward", LENGTH) else None
        changes = [fell, sudden if sudden and (metric == LENGTH or sudden.after > sudden.before) else None]
        for level in (_level(metric, values, change) for change in changes if change):
            if any(level.meets(other) for other in seen if other.metric != metric):
                continue  # the sentence of the other one says it
            seen.append(level)
            yield _event(settings, run, series, level)


def _level(metric: str, values: Series, change: Change) -> _Level:
    """A row of a log that skips steps may hold the mean since the row before it, so the change may lie one row earlier than it looks."""
    steps = values.index
    earlier = change.low - 1 if steps[change.low] - steps[change.low - 1] == 1 else max(0, change.low - 2)
    return _Level(metric, change, int(steps[change.first]), int(steps[earlier]) + 1, int(steps[change.high]))


def _event(settings: Settings, run: Run, series: dict[str, Series], level: _Level) -> Event:
    metric, change, values = level.metric, level.change, series[level.metric]
    up, steps = change.after > change.before, values.index
    place = f"at step {level.step}" + (f" ({level.low} to {level.high})" if level.low < level.high else "")
    says = (
        f"{metric_title(metric)} {'rose' if up else 'fell'} {_from_to(change.before, change.after)}{' tokens' * (metric == LENGTH)} {place}"
    )
    parts = [name for name in series if _is_score(name) and name.startswith("gate.")] if metric == "reward" else []
    moved = {name: text for name in parts if (text := _beside(settings, run, name, level))}
    others = {name: text for name in _BESIDE if name != metric and (text := _beside(settings, run, name, level))}
    also = [*moved.values(), *others.values()]
    says += f"; at the same step {', '.join(also[:-1])}{' and ' * (len(also) > 1)}{also[-1]}" if also else ""
    severity, kind = "warning", "rise" if up else "fall"
    if up and metric == "reward" and len(parts) > 1 and len(moved) == 1:
        says += "; the other parts of the reward did not move"
        kind = "part"
    elif up and metric == "reward":
        severity = "warning" if LENGTH in others or "truncated" in others or "entropy" in others else "info"
    elif metric == "reward" and parts and not moved and not run.imported:
        says += "; no part's score moved with it, so the parts count otherwise from there on: a phase, a cap or a penalty"
        severity, kind = "info", "composed"
    if any(level.low <= resume.first <= level.high for resume in run.resumes):
        says += "; the run was resumed there"
    last, back = steps[-1], None if up else _recovered(values, change)
    if back is not None:
        says += f"; from step {back} on it is back above half of the fall"
        last = steps[values.index.searchsorted(back) - 1]
    elif not up and severity == "warning" and change.before > 0 and change.after <= settings.dead * change.before:
        severity = "severe"
    known = min(change.high + min(change.rows, len(values)) - 1, len(values) - 1)
    evidence: dict[str, Any] = {"before": change.before, "after": change.after, "low": level.low, "high": level.high, "rows": change.rows}
    evidence |= {"usual_differences": change.errors} if isfinite(change.errors) else {}
    dates = (level.step, int(steps[known]), int(last))
    return Event(metric, severity, says, change.after, dates, evidence, kind, null="info")


def _beside(settings: Settings, run: Run, metric: str, level: _Level) -> str:
    """`length from 80 to 256 tokens` of a metric that moved at the same step; empty of one that did not."""
    from stages.analyse.changes import difference_at

    values = run.values(metric)
    low, high = values.index.searchsorted([level.low, level.high])
    difference = difference_at(values.to_numpy(), int(low), int(high), level.change.rows)
    if difference is None:
        return ""
    before, after, errors = difference
    if errors < settings.beside or abs(after - before) < settings.share * max(abs(before), abs(after)):
        return ""
    words, unit = _BESIDE.get(metric, (f"the {metric_title(metric)}", ""))
    return f"{words} {'rose' if after > before else 'fell'} {_from_to(before, after)}{unit}"


def _recovered(values: Series, change: Change) -> int | None:
    """First step from which on the rest of the log is back above the middle of a fall; None of one that lasts."""
    from stages.analyse.changes import SHORTEST

    rest = values.iloc[change.high :]
    back = rest.rolling(SHORTEST).mean() > (change.before + change.after) / 2
    if not len(back) or not back.iloc[-1]:
        return None
    return int(back.index[back.to_numpy().nonzero()[0][0]])


def _from_to(before: float, after: float) -> str:
    """`from 0.61 to 0.02`: digits by the larger one."""
    largest = max(abs(before), abs(after))
    digits = 1 - floor(log10(largest)) if largest else 0
    first, last = (f"{round(number, max(digits, 2 if largest < 10 else 0)) + 0.0:.10g}" for number in (before, after))
    return f"from {first} to {last}"
