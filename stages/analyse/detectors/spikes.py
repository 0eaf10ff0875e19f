"""Spikes: a value far from the rolling median, measured in rolling MADs (median absolute deviations), or in the median distance of all
rows from their rolling medians where that is more.

A multiple of the median means nothing for signed series near zero, such as GRPO's loss; the MAD does. When more than a tenth of
the rows would be flagged, the series is not one with spikes in it, and the rule is not applicable to it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.series import Series

NAME = "spikes"


class Settings(Frozen):
    metrics: tuple[str, ...] = Field(
        ("grad_norm", "kl", "entropy"),
        description="Metrics that are looked at, those that were logged.",
        json_schema_extra={"unit": "names", "source": "octavo's own choice"},
    )
    window: int = Field(
        20,
        ge=5,
        description="Rows before the value that give median and MAD.",
        json_schema_extra={"unit": "logged rows", "source": "octavo's own choice"},
    )
    k: float = Field(
        10.0,
        gt=0,
        description="A value further than this from the rolling median is a spike.",
        json_schema_extra={"unit": "MADs", "source": "octavo's own choice; 10 MADs are 6.7 standard deviations of a normal series"},
    )
    most: float = Field(
        0.1,
        gt=0,
        lt=1,
        description="When a larger share of rows is flagged, the rule is not applicable.",
        json_schema_extra={"unit": "share of rows", "source": "67 of 150 rows flagged in a prover report said nothing"},
    )


def detect(settings: Settings, series: Series) -> Detection:
    """One signal a metric with spikes; the evidence lists the steps."""
    signals, refused, looked = [], [], 0
    for metric in settings.metrics:
        rows = series.values(metric)
        if not rows:
            continue
        if len(rows) <= settings.window:
            refused.append(f"{metric}: {len(rows)} rows, {settings.window + 1} are needed")
            continue
        flagged = _flagged(settings, rows)
        if flagged is None:
            refused.append(f"{metric}: more than half of its values are equal, so it has no spread to compare with")
        elif len(flagged) > settings.most * len(rows):
            refused.append(f"{metric}: {len(flagged)} of {len(rows)} rows flagged, more than {settings.most:.0%}")
        else:
            looked += 1
            signals += [_signal(metric, flagged, len(rows))] if flagged else []
    reason = "; ".join(refused)
    if looked:
        return Detection(detector=NAME, state="looked", reason=reason, signals=tuple(signals))
    if refused:
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    return Detection(detector=NAME, state="not_observable", reason=f"none of {', '.join(settings.metrics)} was logged")


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)  # statistics.median takes three times as long, which counts over every row of every run
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _mad(values: Sequence[float]) -> tuple[float, float]:
    middle = _median(values)
    return middle, _median([abs(value - middle) for value in values])


def _flagged(settings: Settings, rows: list[tuple[int, float]]) -> list[tuple[int, float, float]] | None:
    """(step, value, rolling median) of each spike; None when the series as a whole has no spread.

    A MAD of twenty correlated rows is often far too small by chance (a third of healthy runs had a spike by it), so no row is measured by
    less than the median distance of all rows from their rolling medians.
    """
    values = [value for _, value in rows]
    if _mad(values)[1] == 0.0:
        return None
    w, middles = settings.window, _rolling_medians(values, settings.window)
    distances = [abs(value - middle) for value, middle in zip(values[w:], middles, strict=True)]
    least = settings.k * _median(distances)
    found = []
    for index, (row, distance) in enumerate(zip(rows[w:], distances, strict=True)):
        if distance > least and distance > settings.k * _mad(values[index : index + w])[1]:  # the MAD of few rows is asked for
            found.append((*row, middles[index]))
    return found


def _rolling_medians(values: Sequence[float], window: int) -> list[float]:
    """Medians of the `window` values before each value from the window's end on."""
    ordered, half, odd = sorted(values[:window]), window // 2, window % 2
    found = []
    for old, new in zip(values, values[window:], strict=False):
        found.append(ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2)
        del ordered[bisect_left(ordered, old)]
        insort(ordered, new)
    return found


def _signal(metric: str, flagged: list[tuple[int, float, float]], rows: int) -> Signal:
    step, value, middle = max(flagged, key=lambda spike: abs(spike[1] - spike[2]))
    says = f"{len(flagged)} of {rows} rows of {metric} are spikes; the largest is {value:.4g} at step {step}"
    says += f", where the median before was {middle:.4g}"
    if metric == "grad_norm":
        says += " (logged before clipping)"
    steps = [spike[0] for spike in flagged]
    evidence = {"steps": steps, "largest_step": step, "median_before": middle, "rows": rows}
    return Signal(
        detector=NAME,
        metric=metric,
        severity="warning",
        says=says,
        onset=steps[0],
        detected=steps[0],
        last=steps[-1],
        value=value,
        evidence=evidence,
    )
