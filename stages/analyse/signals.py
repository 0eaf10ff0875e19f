"""What detectors share: settings with unit and source, their three answers, and amounts in sentences.

The compiler imports detectors for their settings, so pandas and numpy are imported where a run is looked at, and not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.rules import stretch

if TYPE_CHECKING:  # names of what detectors are given, for their annotations
    from pandas import DataFrame as DataFrame
    from pandas import Index as Index
    from pandas import Series as Series

    from stages.analyse.frames import Run as Run
else:
    DataFrame = Index = Run = Series = Any

OWN = "octavo's own choice"
EXPECTED = "; expected for a null control"
UNCOUNTED = "no step counts: the gradient is not finite in any with completions"


class Thresholds(Frozen):
    """Settings of a detector. The text below a setting says what it is, on the reference page too."""


def threshold(default: Any, unit: str, source: str = OWN, **bounds: Any) -> Any:
    """A setting of a detector, with its unit, and with the source of its default."""
    return Field(default, json_schema_extra={"unit": unit, "source": source}, **bounds)


class Event(NamedTuple):
    """One dated measurement. `dates`: first step concerned, step at which a live detector could first have known, last step. `kind`: which
    of the things that the detector can find on the metric. `null`: in a null control it is information, and `expected` there."""

    metric: str
    severity: str
    says: str
    value: float | None = None
    dates: tuple[int | None, int | None, int | None] = (None, None, None)
    evidence: Mapping[str, Any] = {}
    kind: str = ""
    null: Literal["", "info", "expected"] = ""


Answer: TypeAlias = Iterator[Event | str]
"""The detector looked and found these events; a text says what it could not see."""


class NotObservable(Exception):
    """What the detector needs was not logged, or has no number at a step that counts."""


class NotApplicable(Exception):
    """The detector's rule says nothing about this run."""


def ask(kind: str, detector: ModuleType, settings: Mapping[str, Any], run: Run) -> Detection:
    """What a detector says of a run."""
    try:
        answer = list(detector.detect(detector.Settings.model_validate(settings), run))
    except NotObservable as refusal:
        return Detection(detector=kind, state="not_observable", reason=str(refusal))
    except NotApplicable as refusal:
        return Detection(detector=kind, state="not_applicable", reason=str(refusal))
    signals = tuple(_signal(kind, part, run) for part in answer if isinstance(part, Event))
    hidden = ""
    if hasattr(detector, "SINGLE_STEPS") and run.stride > 1:
        hidden = f"not observable at this stride: logged every {run.stride} steps, and {detector.SINGLE_STEPS} between them leaves no row"
    reason = "; ".join(part for part in (hidden, *answer) if isinstance(part, str) and part)
    return Detection(detector=kind, state="not_observable" if hidden and not signals else "looked", reason=reason, signals=signals)


def _signal(kind: str, event: Event, run: Run) -> Signal:
    shown: dict[str, Any] = {"metric": event.metric, "severity": event.severity, "says": event.says, "value": event.value}
    if run.null_control and event.null:
        shown |= {"severity": "info", "says": event.says + (EXPECTED if event.null == "expected" else "")}
    dates = {name: None if step is None else int(step) for name, step in zip(("onset", "detected", "last"), event.dates, strict=True)}
    return Signal(detector=kind, kind=event.kind, evidence=dict(event.evidence), **shown, **dates)


def needed(run: Run, metric: str, meaning: str) -> Series:
    """A metric's values, of which there are some. octavo logs a metric wherever it exists, so its absence has a meaning; an import leaves
    out what the source did not log or the spec does not map."""
    values = run.values(metric)
    if len(values):
        return values
    if run.logs(metric) or run.steps.empty:
        raise NotObservable(run.why_none(metric) if len(run.steps) else "nothing was logged")
    if run.imported:
        raise NotObservable(f"{metric} was not imported: the source did not log it, or the spec maps no name to it")
    raise NotApplicable(f"{metric} was not logged: {meaning}")


def check_shares(run: Run, *metrics: str) -> None:
    """Raises NotApplicable when one of the metrics cannot be a share: a value lies outside 0..1."""
    for metric in metrics:
        values = run.values(metric)
        odd = values[(values < -1e-6) | (values > 1 + 1e-6)]
        if len(odd):
            at = f"{metric} is {odd.iloc[0]:.4g} at step {odd.index[0]}"
            raise NotApplicable(f"{at}, and a share lies from 0 to 1: look at its unit")


def counted(count: int, noun: str) -> str:
    """`1 row`, `3 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def at_end(window: int) -> str:
    """`the last step`, `the last 6 steps`."""
    return "the last step" if window == 1 else f"the last {window} steps"


def every(steps: Index) -> str:
    """`; logged every 5 steps`; empty where every step has a row."""
    from stages.analyse.frames import usual_distance

    return f"; logged every {stride} steps" if (stride := usual_distance(steps)) > 1 else ""


def end(first: int, last: int, window: int) -> str:
    """The end of a log of the steps first..last: `the last 10 steps`, or all of a log that is no longer than the window."""
    return stretch(first, last) if last - first + 1 <= window else at_end(window)


class Span(NamedTuple):
    """A stretch of steps with pooled counts. `onset`: its first step whose own share is above the limit."""

    first: int
    last: int
    k: int
    n: int
    onset: int


def pooled(counts: DataFrame, window: int | None = None) -> tuple[int, int]:
    """k and n of counts by step, added up over the last `window` steps, or over all."""
    last = counts if window is None else counts.loc[counts.index[-1] - window + 1 :]
    return int(last["k"].sum()), int(last["n"].sum())


def first_above(counts: DataFrame, limit: float, window: int) -> Span | None:
    """The first window of `window` steps whose pooled share is above the limit; a shorter log is one window, and a row stands for the
    steps since the one before it. None: there is none."""
    from stages.analyse.frames import usual_distance

    steps = counts.index
    stride = usual_distance(steps)
    begin = max(min(1, steps[0]), steps[0] - stride + 1)
    whole = counts[["k", "n"]].astype(int).reindex(range(begin, steps[-1] + 1), fill_value=0)
    sums = whole.rolling(min(window, len(whole))).sum().loc[steps]
    above = sums[(sums["n"] > 0) & (sums["k"] > limit * sums["n"])]
    if above.empty:
        return None
    last = int(above.index[0])
    inside = counts.loc[last - window + 1 : last]
    alone, first = inside.index[inside["k"] > limit * inside["n"]], int(inside.index[0])
    k, n = (int(count) for count in above.iloc[0])
    onset = int(alone[0]) if len(alone) else first
    if stride > 1:  # a row before the window may lie so far away that no window holds both
        calm = counts.index[(counts["k"] <= limit * counts["n"]) & (steps < onset)]
        onset = int(steps[steps > (calm[-1] if len(calm) else begin - 1)][0]) if len(alone) else onset
    return Span(first, last, k, n, onset)


def millionths(shares: Series) -> DataFrame:
    """Shares by step as counts k of n, for logs without completions."""
    return (shares * 1_000_000).round().astype(int).to_frame("k").assign(n=1_000_000)


def share_event(
    metric: str, counts: DataFrame, limits: Any, words: tuple[str, str], *, exact: bool, null: Literal["", "expected"] = ""
) -> Event:
    """The pooled share of the last window against the `window`, `warn_above` and `severe_above` of `limits`. No onset: no window is above
    `warn_above`. `exact`: completions were counted."""
    (k, n), steps = pooled(counts, limits.window), counts.index
    hit, share = first_above(counts, limits.warn_above, limits.window), k / n
    says = f"{share:.0%} of {words[0]}" + (f" ({k} of {n})" if exact else "") + f" {words[1]} in {end(steps[0], steps[-1], limits.window)}"
    evidence: dict[str, float | str] = {"k": k, "n": n} if exact else {"rows": len(counts)}
    if exact and null:
        evidence |= dict(zip(("all_k", "all_n"), pooled(counts), strict=True))
    if hit is not None:
        says += f"; above {limits.warn_above:.0%} first in {stretch(hit.first, hit.last)}"
        if hit.k * n > k * hit.n:  # the end looks better than that: the explanation must not speak of the end
            evidence |= {"first_above": hit.k / hit.n, "in": stretch(hit.first, hit.last)}
    says += every(counts.index)
    severity = "severe" if share > limits.severe_above else "warning" if hit is not None else "info"
    return Event(metric, severity, says, share, (hit.onset if hit else None, hit.last if hit else None, steps[-1]), evidence, null=null)


def since_outside(run: Run, inside: Series) -> int:
    """First step of the rows that are not inside without a break to the end, at the latest that of the last window. `inside`: by step."""
    back = inside.index[inside][-1:]
    begin = min(int(back[0]), run.target_steps - run.window()) if len(back) else 0
    return int(inside.index[inside.index > begin][0])
