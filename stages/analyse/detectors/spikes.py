"""Spikes: a value far from the rolling median, measured in rolling MADs (median absolute deviations), or in the median distance of all
rows from their rolling medians where that is more.

A multiple of the median means nothing for signed series near zero, such as GRPO's loss; the MAD does. When more than a tenth of
the rows would be flagged, the series is not one with spikes in it, and the rule is not applicable to it. The first rows have no window
before them: they are held against each other, and what is far away from the very first row on is where the series begins, not a spike.
"""

from itertools import pairwise

from stages.analyse.signals import OWN, Answer, Event, NotApplicable, NotObservable, Run, Series, Thresholds, counted, threshold

SINGLE_STEPS = "a spike"
_LEVEL = 5
"""This many spikes at rows that follow each other are another level: a spike is one row, or a few."""


class Settings(Thresholds):
    metrics: tuple[str, ...] = threshold(("grad_norm", "kl", "entropy"), "names")
    """Metrics that are looked at, those that were logged."""
    window: int = threshold(20, "logged rows", ge=5)
    """Rows before the value that give median and MAD."""
    k: float = threshold(10.0, "MADs", f"{OWN}; 10 MADs are 6.7 standard deviations of a normal series", gt=0)
    """A value further than this from the rolling median is a spike."""
    most: float = threshold(0.1, "share of rows", "67 of 150 rows flagged in a prover report said nothing", gt=0, lt=1)
    """When a larger share of rows is flagged, the rule is not applicable."""


def detect(settings: Settings, run: Run) -> Answer:
    """One event a metric with spikes; the evidence lists the steps."""
    refused: dict[str, list[str]] = {}
    looked = False
    for metric in settings.metrics:
        values = run.values(metric)
        medians = _outliers(values, settings.window, settings.k) if len(values) > settings.window else None
        if values.empty:
            continue
        if len(values) <= settings.window:
            refused.setdefault(f"{counted(len(values), 'row')}, {settings.window + 1} are needed", []).append(metric)
        elif medians is None:
            refused.setdefault("more than half of the values are equal, so there is no spread to compare with", []).append(metric)
        elif len(medians) / len(values) > settings.most:
            refused.setdefault(f"{len(medians)} of {len(values)} rows flagged, more than {settings.most:.0%}", []).append(metric)
        else:
            looked = True
            if len(medians):
                yield _event(run, metric, medians)
    if looked and run.imported and (absent := [metric for metric in settings.metrics if not run.logs(metric)]):
        refused["not logged"] = absent
    reason = "; ".join(f"{', '.join(names)}: {why}" for why, names in refused.items())
    if not looked and not refused:
        logged = "; ".join(run.why_none(metric) for metric in settings.metrics if run.logs(metric))
        raise NotObservable(logged or f"none of {', '.join(settings.metrics)} was logged")
    if not looked:
        raise NotApplicable(reason)
    yield reason


def _outliers(values: Series, window: int, k: float) -> Series | None:
    """By step of each value further than k MADs from the median of the `window` values before it: that median. None when more than half
    of the values are equal.

    A MAD of twenty correlated rows is often far too small by chance (a third of healthy runs had a spike by it), so no row is measured by
    less than the median distance of all rows from their rolling medians.
    """
    import numpy as np

    if (values - values.median()).abs().median() == 0.0:
        return None
    numbers, medians = values.to_numpy(), values.rolling(window).median().shift()
    usual = (values - medians).abs().median()
    # each of the first rows is held against the others among the first window + 1
    before = [np.delete(numbers[: window + 1], place) for place in range(window)]
    medians.iloc[:window] = np.median(before, axis=1)
    far = (values - medians).abs() > k * usual
    for place in np.flatnonzero(far):
        others = before[place] if place < window else numbers[place - window : place]
        middle = medians.iloc[place]
        far.iloc[place] = abs(numbers[place] - middle) > k * np.median(np.abs(others - middle))
    if far.iloc[0]:  # the series comes in from far away, until two near rows follow each other
        near = next((place for place in range(2, window) if not far.iloc[place - 1 : place + 1].any()), window - 1)
        far.iloc[: near + 1] = False
    return medians[far]


def _event(run: Run, metric: str, medians: Series) -> Event:
    values, steps = run.values(metric), medians.index.tolist()
    step = int((values[steps] - medians).abs().idxmax())
    is_, largest = ("is a spike", "it") if len(steps) == 1 else ("are spikes", "the largest")
    says = f"{len(steps)} of {counted(len(values), 'row')} of {metric} {is_}; {largest} is {values[step]:.4g} at step {step}"
    says += f", where the median around it was {medians[step]:.4g}"
    if metric == "grad_norm":
        says += " (whether that is before or after clipping, the import does not say)" if run.imported else " (logged before clipping)"
    kind = "level" if len(steps) >= _LEVEL and len({after - step for step, after in pairwise(steps)}) == 1 else ""
    evidence = {"steps": steps, "largest_step": step, "median_before": medians[step], "rows": len(values)}
    return Event(metric, "warning", says, values[step], (steps[0], steps[0], steps[-1]), evidence, kind)
