"""Spikes: a value far from the rolling median, measured in rolling MADs (median absolute deviations), or in the median distance of all
rows from their rolling medians where that is more.

A multiple of the median means nothing for signed series near zero, such as GRPO's loss; the MAD does. When more than a tenth of
the rows would be flagged, the series is not one with spikes in it, and the rule is not applicable to it. The first rows have no window
before them: they are held against each other, and what is far away from the very first row on is where the series begins, not a spike.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.amounts import counted
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed, Rows
from stages.contracts.rolling import outliers

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


def detect(settings: Settings, series: Observed) -> Detection:
    """One signal a metric with spikes; the evidence lists the steps."""
    signals, looked = [], 0
    refused: dict[str, list[str]] = {}
    for metric in settings.metrics:
        rows, n = series.rows(metric), series.rows(metric).n
        if not n:
            continue
        if n <= settings.window:
            refused.setdefault(f"{counted(n, 'row')}, {settings.window + 1} are needed", []).append(metric)
            continue
        flagged = _flagged(settings, rows)
        if flagged is None:
            refused.setdefault("more than half of the values are equal, so there is no spread to compare with", []).append(metric)
        elif len(flagged) / n > settings.most:
            refused.setdefault(f"{len(flagged)} of {n} rows flagged, more than {settings.most:.0%}", []).append(metric)
        else:
            looked += 1
            signals += [_signal(series, metric, flagged)] if flagged else []
    reason = "; ".join(f"{', '.join(names)}: {why}" for why, names in refused.items())
    if looked:
        return Detection(detector=NAME, state="looked", reason=reason, signals=tuple(signals))
    if refused:
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    return Detection(detector=NAME, state="not_observable", reason=_why_none(settings, series))


def _why_none(settings: Settings, series: Observed) -> str:
    logged = [series.why_none(metric) for metric in settings.metrics if series.logs(metric)]
    return "; ".join(logged) or f"none of {', '.join(settings.metrics)} was logged"


def _flagged(settings: Settings, rows: Rows) -> list[tuple[int, float, float]] | None:
    """(step, value, rolling median) of each spike; None when the series as a whole has no spread.

    A MAD of twenty correlated rows is often far too small by chance (a third of healthy runs had a spike by it), so no row is measured by
    less than the median distance of all rows from their rolling medians.
    """
    found = outliers(rows.values, settings.window, settings.k)
    return None if found is None else [(int(rows.steps[at]), float(rows.values[at]), middle) for at, middle in found]


def _signal(series: Observed, metric: str, flagged: list[tuple[int, float, float]]) -> Signal:
    rows = series.rows(metric).n
    step, value, middle = max(flagged, key=lambda spike: abs(spike[1] - spike[2]))
    is_, largest = ("is a spike", "it") if len(flagged) == 1 else ("are spikes", "the largest")
    says = f"{len(flagged)} of {counted(rows, 'row')} of {metric} {is_}; {largest} is {value:.4g} at step {step}"
    says += f", where the median around it was {middle:.4g}"
    if metric == "grad_norm":
        says += " (whether that is before or after clipping, the import does not say)" if series.imported else " (logged before clipping)"
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
