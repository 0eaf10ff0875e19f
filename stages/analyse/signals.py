"""What detectors share: settings with unit and source, their three answers, and amounts in sentences.

The compiler imports detectors for their settings, so pandas and numpy are imported where a run is looked at, and not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field

from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.rules import stretch

if TYPE_CHECKING:  # names of what detectors are given, for their annotations
    from pandas import DataFrame as DataFrame
    from pandas import Index as Index
    from pandas import Series as Series

    from stages.analyse.frames import NonFinite as NonFinite
    from stages.analyse.frames import Resume as Resume
    from stages.analyse.frames import Run as Run
else:
    DataFrame = Index = NonFinite = Resume = Run = Series = Any

OWN = "octavo's own choice"
EXPECTED = "; expected for a null control"


class Thresholds(Frozen):
    """Settings of a detector. The text below a setting says what it is, on the reference page too."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def threshold(default: Any, unit: str, source: str = OWN, **bounds: Any) -> Any:
    """A setting of a detector, with its unit, and with the source of its default."""
    return Field(default, json_schema_extra={"unit": unit, "source": source}, **bounds)


def looked(detector: str, *signals: Signal | None, reason: str = "") -> Detection:
    """The detector looked; `reason` says what it could not see. No signals (None is none): there is nothing to report."""
    return Detection(detector=detector, state="looked", reason=reason, signals=tuple(signal for signal in signals if signal))


def not_observable(detector: str, reason: str) -> Detection:
    """What the detector needs was not logged, or has no number at a step that counts."""
    return Detection(detector=detector, state="not_observable", reason=reason)


def not_applicable(detector: str, reason: str) -> Detection:
    """The rule says nothing about this run."""
    return Detection(detector=detector, state="not_applicable", reason=reason)


def lacks(detector: str, run: Run, metric: str, meaning: str) -> Detection:
    """The answer for a run without a metric. octavo logs a metric wherever it exists, so its absence has a meaning; an import leaves out
    what the source did not log or the spec does not map."""
    if run.logs(metric) or run.steps.empty:
        return not_observable(detector, run.why_none(metric) if len(run.steps) else "nothing was logged")
    if run.imported:
        return not_observable(detector, f"{metric} was not imported: the source did not log it, or the spec maps no name to it")
    return not_applicable(detector, f"{metric} was not logged: {meaning}")


def signal(
    detector: str,
    run: Run,
    metric: str,
    severity: Any,
    says: str,
    value: float | None = None,
    dates: tuple[int | None, int | None, int | None] = (None, None, None),
    evidence: Mapping[str, Any] | None = None,
    kind: str = "",
    null: Literal["", "info", "expected"] = "",
) -> Signal:
    """One signal. `dates`: onset, detected, last. `null`: in a null control it is information, and `expected` there."""
    if run.null_control and null:
        severity, says = "info", says + (EXPECTED if null == "expected" else "")
    onset, detected, last = (None if step is None else int(step) for step in dates)
    shown = {"onset": onset, "detected": detected, "last": last, "evidence": dict(evidence or {})}
    return Signal(detector=detector, metric=metric, kind=kind, severity=severity, says=says, value=value, **shown)


def counted(count: int, noun: str) -> str:
    """`1 row`, `3 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def at_end(window: int) -> str:
    """`the last step`, `the last 6 steps`."""
    return "the last step" if window == 1 else f"the last {window} steps"


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
    """The first window of `window` steps whose pooled share is above the limit; a shorter log is one window. None: there is none."""
    import numpy as np

    steps = counts.index.to_numpy()
    begins = steps.searchsorted(steps - window + 1)
    sums = np.vstack([[0, 0], counts[["k", "n"]].to_numpy().cumsum(axis=0)])
    k, n = (sums[1:] - sums[begins]).T
    whole = (steps - window + 1 >= steps[0]) | (steps == steps[-1])
    places = np.flatnonzero(whole & (n > 0) & (k > limit * n))
    if not len(places):
        return None
    place = places[0]
    inside = counts.iloc[begins[place] : place + 1]
    alone = inside.index[inside["k"] > limit * inside["n"]]
    first = int(inside.index[0])
    return Span(first, int(steps[place]), int(k[place]), int(n[place]), int(alone[0]) if len(alone) else first)


def millionths(shares: Series) -> DataFrame:
    """Shares by step as counts k of n, for logs without completions."""
    return (shares * 1_000_000).round().astype(int).to_frame("k").assign(n=1_000_000)


def share_signal(
    detector: str,
    run: Run,
    metric: str,
    counts: DataFrame,
    limits: Any,
    words: tuple[str, str],
    *,
    exact: bool,
    more: str = "",
    null: Literal["", "expected"] = "",
) -> Signal | None:
    """The pooled share of the last window against the `window`, `warn_above` and `severe_above` of `limits`; None where no window is above
    `warn_above` and the detector reports only that (`null`). `exact`: completions were counted. `more`: the end of the sentence."""
    (k, n), steps = pooled(counts, limits.window), counts.index
    hit, share = first_above(counts, limits.warn_above, limits.window), k / n
    if hit is None and null:
        return None
    says = f"{share:.0%} of {words[0]}" + (f" ({k} of {n})" if exact else "") + f" {words[1]} in {end(steps[0], steps[-1], limits.window)}"
    evidence: dict[str, float | str] = {"k": k, "n": n} if exact else {"rows": len(counts)}
    if exact and null:
        evidence |= dict(zip(("all_k", "all_n"), pooled(counts), strict=True))
    if hit is not None:
        says += f"; above {limits.warn_above:.0%} first in {stretch(hit.first, hit.last)}"
        if hit.k * n > k * hit.n:  # the end looks better than that: the explanation must not speak of the end
            evidence |= {"first_above": hit.k / hit.n, "in": stretch(hit.first, hit.last)}
    severity = "severe" if share > limits.severe_above else "warning" if hit is not None else "info"
    dates = (hit.onset if hit else None, hit.last if hit else None, steps[-1])
    return signal(detector, run, metric, severity, says + more, share, dates, evidence, null=null)


def since_outside(run: Run, inside: Series) -> int:
    """First step of the rows that are not inside without a break to the end, at the latest that of the last window. `inside`: by step."""
    back = inside.index[inside][-1:]
    begin = min(int(back[0]), run.target_steps - run.window()) if len(back) else 0
    return int(inside.index[inside.index > begin][0])
