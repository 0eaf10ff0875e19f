"""Numbers of a size that no training gives: they say that something is computed wrongly, not that the policy does badly.

A vocabulary of 200,000 tokens has an entropy of 12 nats at most, so an entropy of 20 and a KL of 100 nats per token are no measurements of
a policy. A gradient or a loss may explode later on (see spikes); from the first logged row on, before an update could do harm, a huge one
has another cause: sampling and training disagree (another engine, constrained decoding, a wrong mask), or sums stand for means.
"""

from stages.analyse.signals import Answer, Event, NotObservable, Run, Thresholds, counted, threshold
from stages.rules import stretch

FROM_THE_FIRST = ("grad_norm", "loss")


class Settings(Thresholds):
    kl: float = threshold(100.0, "nats per token", "a report of constrained decoding began at 10,800; see above", gt=0)
    """A KL to the reference model beyond this, in any row, is impossible."""
    entropy: float = threshold(20.0, "nats per token", "the logarithm of the largest vocabularies is below 13", gt=0)
    """A larger entropy, in any row, is impossible."""
    grad_norm: float = threshold(10_000.0, "norm", "a report of constrained decoding began at 421,404", gt=0)
    """A larger gradient norm in the first row is impossible."""
    loss: float = threshold(1_000.0, "loss", gt=0)
    """A loss further from 0 in the first row is impossible."""


def detect(settings: Settings, run: Run) -> Answer:
    """One event a metric: severe when it never comes back below its limit."""
    limits = {"kl": settings.kl, "entropy": settings.entropy, "grad_norm": settings.grad_norm, "loss": settings.loss}
    logged = {metric: values for metric in limits if len(values := run.values(metric))}
    if not logged:
        raise NotObservable("; ".join(run.why_none(metric) for metric in limits))
    for metric, values in logged.items():
        beyond = values.index[values.abs() > limits[metric]]
        if beyond.empty or (metric in FROM_THE_FIRST and beyond[0] != values.index[0]):
            continue
        first, last, at_start = int(beyond[0]), int(beyond[-1]), beyond[0] == values.index[0]
        # an explosion later on is no part of what was wrong from the first row on
        rows = int((values.abs() > limits[metric]).cummin().sum()) if at_start else len(beyond)
        last = int(values.index[rows - 1]) if at_start else last
        where = "from the first logged row on" if at_start else f"in {stretch(first, last)}"
        says = f"{metric} is {values[first]:.6g} at step {first}, and beyond {limits[metric]:g} in {counted(rows, 'row')} {where}"
        says += f"; it ends at {values.iloc[-1]:.3g}" if len(values) > 1 else ""
        evidence = {"rows": len(values), "beyond": rows, "limit": limits[metric], "end": values.iloc[-1]}
        severity = "severe" if rows > len(values) / 2 or last == values.index[-1] else "warning"
        kind = metric if metric in FROM_THE_FIRST or metric == "entropy" else "start" if at_start else "later"
        yield Event(metric, severity, says, values[first], (first, first, last), evidence, kind)
    if run.imported and (absent := [metric for metric in limits if metric not in logged]):
        yield f"without a number: {', '.join(absent)}"
