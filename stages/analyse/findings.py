"""Findings over seeds: values of runs, means of conditions, differences between conditions, the untrained model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stages.analyse.evidence import NOT_EVALUATED, Evidence, RunEvidence, meaning
from stages.analyse.statistics import Interval, Share, completions_interval, detectable, estimate, proportion
from stages.contracts.finding import Finding, SeedValue, Source

WITH_EXCLUDED = "-with-excluded"
"""Added to the statistic of a finding that counts excluded runs too."""


class Group:
    """A condition's runs with their values of one estimand. `everyone`: excluded runs count too."""

    def __init__(self, evidence: Evidence, condition: str, name: str, statistic: str, *, everyone: bool = False) -> None:
        self.condition, self.runs = condition, evidence.runs_of(condition)
        pairs = [(run, evidence.measures[run.ref.name, name, statistic]) for run in self.runs]
        values = [(run, measure.value) for run, measure in pairs if measure.value is not None]
        self.counting = {run.ref.name: value for run, value in values if run.included or everyone}
        """Value of each run that counts."""
        self.values, self.all_values = list(self.counting.values()), [value for _, value in values]
        self.scale = max((measure.scale for _, measure in pairs), default=0.0)
        self.seeds = tuple(
            SeedValue(
                run=run.ref.name,
                seed=run.ref.seed,
                value=measure.value,
                included=run.ref.name in self.counting,
                why=measure.part or measure.why if run.included else "; ".join(filter(None, (run.why_not, measure.part))),
            )
            for run, measure in pairs
        )
        self.any_excluded = any(not run.included for run, _ in values)

    @property
    def nothing(self) -> str:
        """Why the group has no value: each run's reason once."""
        reasons = [f"{seed.run}: {seed.why}" for seed in self.seeds if seed.why]
        return f"no run of {self.condition} counts ({'; '.join(reasons)})" if reasons else f"{self.condition} has no runs"


def run_finding(evidence: Evidence, run: RunEvidence, name: str, statistic: str) -> Finding:
    """One run's value. Shares of its evaluation carry k/n. A window's mean has no interval, because a run is one trajectory; its change
    has one from its steps, which is about this run and says nothing of other seeds."""
    measure, level = evidence.measures[run.ref.name, name, statistic], evidence.card.level
    interval = proportion(measure.k, measure.n, level) if measure.k is not None and measure.n else measure.interval
    method = "completions of the shared evaluation" if name.startswith("evaluation.") else "mean over the logged steps of one run"
    return finding(
        f"{run.ref.name}/{name}/{statistic}",
        _says(evidence, [run], name, statistic, f"run {run.ref.name}"),
        interval,
        level,
        unit=meaning(name).unit,
        value=measure.value,
        reason=measure.why,
        method="; ".join(filter(None, (measure.method or (interval.method if interval else method), measure.part))),
        k=measure.k,
        n=measure.interval.n if measure.interval else measure.n,
        window=_window(evidence, [run], name, statistic),
        sources=_sources(evidence, [run], name, statistic),
        detectable=measure.interval.detectable if measure.interval else None,
    )


def untrained_finding(evidence: Evidence, name: str) -> Finding:
    """The base model on the shared evaluation."""
    measure, level = evidence.measures["untrained", name, "final"], evidence.card.level
    interval = proportion(measure.k, measure.n, level) if measure.k is not None and measure.n else None
    return finding(
        f"untrained/{name}/final",
        f"{meaning(name).says}; the untrained model",
        interval,
        level,
        unit=meaning(name).unit,
        value=measure.value,
        reason=measure.why,
        method=interval.method if interval else "mean over completions of the shared evaluation",
        k=measure.k,
        n=measure.n,
        window="shared evaluation",
        sources=(evidence.source(evidence.folder.untrained.evaluation),) if measure.why != NOT_EVALUATED else (),
    )


def seeds_finding(evidence: Evidence, conditions: Sequence[str], name: str, statistic: str, *, everyone: bool = False) -> Finding:
    """Mean over a condition's runs with a t interval over seeds, or the first of two conditions minus the second with Welch's. Of equal
    shares of completions the interval is the completions' own. The id ends with the statistic that is averaged or compared."""
    groups = [Group(evidence, condition, name, statistic, everyone=everyone) for condition in conditions]
    level, contrast, unit = evidence.card.level, len(groups) > 1, meaning(name)
    reason = next((group.nothing for group in groups if not group.values), "")
    interval = None if reason else estimate([group.values for group in groups], level, max(group.scale for group in groups))
    if interval and interval.equal:
        interval = _or_of_completions(evidence, interval, name, statistic, groups)
    if interval and interval.low is not None and interval.high is not None and unit.share and statistic != "change" and not contrast:
        low, high = max(0.0, interval.low), min(1.0, interval.high)
        if (low, high) != (interval.low, interval.high):
            interval = interval._replace(low=low, high=high, method=f"{interval.method}, limited to 0..1")
    method = interval.method if interval else "difference of means over seeds" if contrast else "mean over seeds"
    if name.startswith("evaluation.") and statistic == "change" and not contrast and not (interval and interval.equal):
        method += "; the untrained model's own sampling error is not in it"
    with_all = None
    if not everyone and any(group.any_excluded for group in groups) and all(group.all_values for group in groups):
        with_all = estimate([group.all_values for group in groups], level).value
    runs = [run for group in groups for run in group.runs]
    powered = interval and not interval.equal and (contrast or statistic == "change")
    return finding(
        f"{'-vs-'.join(conditions)}/{name}/{statistic}{WITH_EXCLUDED if everyone else ''}",
        _says(evidence, runs, name, statistic, " minus ".join(conditions) if contrast else f"mean over the seeds of {conditions[0]}"),
        interval,
        level,
        statistic="difference" if contrast else statistic,
        unit=unit.unit,
        value=interval.value if interval else None,
        reason=reason,
        method=method,
        n=interval.n if interval else 0,
        window=_window(evidence, runs, name, statistic),
        seeds=tuple(seed for group in groups for seed in group.seeds),
        sources=_sources(evidence, runs, name, statistic),
        with_all=with_all,
        detectable=detectable([group.values for group in groups], level) if powered else None,
    )


def finding(id_: str, says: str, interval: Interval | None = None, level: float | None = None, **fields: Any) -> Finding:
    """A finding whose id is `<subject>/<metric>/<statistic>`. The reason is kept only where there is no value, the level only where the
    interval has ends."""
    subject, metric, statistic = id_.split("/")
    fields = {"subject": subject, "metric": metric, "statistic": statistic, **fields}
    if fields["value"] is not None:
        fields["reason"] = ""
    if interval is not None:
        bounded = interval.low is not None
        fields |= {"low": interval.low, "high": interval.high, "level": level if bounded else None, "equal_seeds": interval.equal}
    return Finding(id=id_, says=says, **fields)


def count_of_runs(
    id_: str, says: str, method: str, counts: Iterable[tuple[RunEvidence, bool, str]], sources: Sequence[Source], reason: str = ""
) -> Finding:
    """How many runs count; `counts`: each run, whether it does, and why."""
    seeds = tuple(SeedValue(run=run.ref.name, seed=run.ref.seed, value=float(holds), included=True, why=why) for run, holds, why in counts)
    k = sum(seed.value == 1.0 for seed in seeds)
    fields: dict[str, Any] = {"value": float(k) if seeds else None, "reason": reason or "there is no run", "k": k, "n": len(seeds)}
    return finding(id_, says, unit="runs", method=method, seeds=seeds, sources=tuple(sources), **fields)


def _or_of_completions(evidence: Evidence, interval: Interval, name: str, statistic: str, groups: Sequence[Group]) -> Interval:
    """Of seeds that do not differ: the interval of their completions, where the values are shares of them."""
    plus, minus = (
        [_share(evidence, group, name, "final" if statistic == "change" else statistic) for group in side]
        for side in (groups[:1], groups[1:])
    )
    if statistic == "change" and not (minus and name.startswith("evaluation.")):  # the untrained model's own share cancels
        starts = [_share(evidence, group, name, "initial") for group in groups]
        plus, minus = [*plus, *starts[1:]], [*minus, *starts[:1]]
    added, taken = [share for share in plus if share], [share for share in minus if share]
    complete = len(added + taken) == len(plus + minus)
    return completions_interval(interval, added, taken, evidence.card.level) if complete else interval


def _share(evidence: Evidence, group: Group, name: str, statistic: str) -> Share | None:
    """What the seeds that count are a share of; None where that is not known of all of them. Seeds of the shared evaluation that show no
    difference count once, because the same prompts made them."""
    evaluated = name.startswith("evaluation.")
    runs = ["untrained"] if evaluated and statistic == "initial" else list(group.counting)
    measures = [evidence.measures[run, name, "final" if evaluated else statistic] for run in runs]
    worth = [measure.worth for measure in measures if measure.worth]
    if len(worth) < len(measures):
        return None
    value = sum(measure.value or 0.0 for measure in measures) / len(measures)
    if not evaluated:
        return Share(value, sum(worth), f"the completions of {sum(worth):,.0f} steps")
    k, n = sum(measure.k or 0 for measure in measures), sum(measure.n or 0 for measure in measures)
    return Share(value, min(worth), f"{k:,} of {n:,} completions")


def _says(evidence: Evidence, runs: Sequence[RunEvidence], name: str, statistic: str, subject: str) -> str:
    if name.startswith("evaluation."):
        when = "after training minus the untrained model" if statistic == "change" else "after training"
    elif runs and all(run.only_summary for run in runs):
        methods = {measure.method for run in runs if (measure := evidence.measures[run.ref.name, name, statistic]).method}
        when = methods.pop() if len(methods) == 1 else "from the sources' summaries"
    elif statistic == "change":
        when = "last window minus first window"
    else:
        targets, end = {run.ref.target_steps for run in runs}, "first" if statistic == "initial" else "last"
        when = f"mean over the {end} {getattr(evidence.card.windows, statistic):.0%} of each run's steps"
        if len(targets) == 1:
            when = f"mean over the {end} {evidence.window(runs[0].ref, statistic).length} of {targets.pop()} steps"
    return f"{meaning(name).says}; {when}; {subject}"


def _window(evidence: Evidence, runs: Sequence[RunEvidence], name: str, statistic: str) -> str:
    if name.startswith("evaluation."):
        return "shared evaluation at the end" + (" minus the untrained model" if statistic == "change" else "")
    if runs and all(run.only_summary for run in runs):
        return "no window: a value of the source's summary"
    if len({run.ref.target_steps for run in runs}) != 1:
        return "windows differ between runs"
    ends = ("final", "initial") if statistic == "change" else (statistic,)
    return " minus ".join(str(evidence.window(runs[0].ref, end)) for end in ends)


def _sources(evidence: Evidence, runs: Sequence[RunEvidence], name: str, statistic: str) -> tuple[Source, ...]:
    """Files that hold the values, the untrained model's first when a change rests on it."""
    if name.startswith("evaluation."):
        files = [(run.place.evaluation, run.evaluated_attempt) for run in runs if run.evaluated]
        if statistic == "change" and evidence.measures["untrained", name, "final"].why != NOT_EVALUATED:
            files.insert(0, (evidence.folder.untrained.evaluation, None))
    else:
        files = [(run.place.imported if run.only_summary else run.place.history, run.attempt) for run in runs if run.exists]
    return tuple(evidence.source(path, attempt) for path, attempt in files)
