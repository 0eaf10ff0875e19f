"""A finding with its interval: what every number that analysis estimates has in common."""

from __future__ import annotations

from collections.abc import Mapping

from stages.analyse.statistics import Interval
from stages.contracts.finding import Finding, SeedValue, Source


def bounded(
    id_: str,
    says: str,
    *,
    unit: str,
    value: float | None,
    reason: str,
    interval: Interval | None,
    level: float | None,
    method: str,
    window: str,
    sources: tuple[Source, ...],
    kind: str = "",
    k: int | None = None,
    n: int | None = None,
    seeds: tuple[SeedValue, ...] = (),
    with_all: float | None = None,
    smallest: float | None = None,
    without_gate: Mapping[str, float] | None = None,
) -> Finding:
    """`id_` is `<subject>/<metric>/<statistic>`; `kind` replaces the statistic that the finding names. The reason is kept only where there
    is no value, the level only where the interval has ends."""
    subject, metric, statistic = id_.split("/")
    told = {
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "level": level if interval is not None and interval.low is not None else None,
        "n": n,
        "k": k,
        "equal_seeds": True if interval is not None and interval.equal else None,
        "detectable": smallest,
        "with_all": with_all,
        "without_gate": dict(without_gate) if without_gate else None,
    }
    return Finding(
        id=id_,
        says=says,
        subject=subject,
        metric=metric,
        statistic=kind or statistic,
        unit=unit,
        value=value,
        reason=reason if value is None else "",
        method=method,
        window=window,
        seeds=seeds,
        sources=sources,
        **{name: found for name, found in told.items() if found is not None},  # a model remembers what it was given: 2 KB for twenty
    )
