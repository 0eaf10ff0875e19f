"""Findings over seeds: values of runs, means of conditions, differences between conditions, the untrained model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stages.analyse.evidence import TOO_LARGE, Evidence, RunEvidence, meaning
from stages.analyse.statistics import Interval, Share, detectable, difference, mean, of_completions, proportion
from stages.contracts.finding import Finding, SeedValue, Source

WITH_EXCLUDED = "-with-excluded"
"""Added to the statistic of a finding that counts excluded runs too."""


class Group:
    """A condition's runs with their values of one estimand. `everyone`: excluded runs count too."""

    def __init__(self, evidence: Evidence, condition: str, name: str, statistic: str, *, everyone: bool = False) -> None:
        self.condition, self.runs = condition, evidence.of(condition)
        pairs = [(run, evidence.measures[run.ref.name, name, statistic]) for run in self.runs]
        known = [(run, measure.value) for run, measure in pairs if measure.value is not None]
        self.counting = [run.ref.name for run, _ in known if run.included or everyone]
        self.values = [value for run, value in known if run.included or everyone]
        self.all_values = [value for _, value in known]
        self.any_excluded = any(not run.included for run, _ in known)
        self.scale = max((measure.scale for _, measure in pairs), default=0.0)
        self.seeds = tuple(
            SeedValue(
                run=run.ref.name,
                seed=run.ref.seed,
                value=measure.value,
                included=run.ref.name in self.counting,
                why=measure.part or measure.why if run.included else "; ".join(part for part in (run.why_not, measure.part) if part),
            )
            for run, measure in pairs
        )

    @property
    def nothing(self) -> str:
        """Why the group has no value: each run's reason once."""
        reasons = [f"{seed.run}: {seed.why}" for seed in self.seeds if seed.why]
        return f"no run of {self.condition} counts ({'; '.join(reasons)})" if reasons else f"{self.condition} has no runs"


def run_finding(evidence: Evidence, run: RunEvidence, name: str, statistic: str) -> Finding:
    """One run's value. Shares of its evaluation carry k/n. A window's mean has no interval, because a run is one trajectory; its change
    has one from its steps, which is about this run and says nothing of other seeds."""
    measure = evidence.measures[run.ref.name, name, statistic]
    interval, level = measure.interval, evidence.card.level
    if measure.k is not None and measure.n:
        interval = proportion(measure.k, measure.n, level)
    method = "completions of the shared evaluation" if name.startswith("evaluation.") else "mean over the logged steps of one run"
    method = measure.method or (interval.method if interval else method)
    return finding(
        f"{run.ref.name}/{name}/{statistic}",
        _says(evidence, [run], name, statistic, f"run {run.ref.name}"),
        interval,
        level,
        unit=meaning(name).unit,
        value=measure.value,
        reason=measure.why,
        method="; ".join(part for part in (method, measure.part) if part),
        k=measure.k,
        n=measure.interval.n if measure.interval else measure.n,
        window=_window(evidence, [run], name, statistic),
        sources=_sources(evidence, [run], name, statistic),
        detectable=measure.interval.detectable if measure.interval else None,
    )


def untrained_finding(evidence: Evidence, name: str) -> Finding:
    """The base model on the shared evaluation."""
    measure = evidence.measures["untrained", name, "final"]
    interval = proportion(measure.k, measure.n, evidence.card.level) if measure.k is not None and measure.n else None
    path = evidence.folder.untrained.evaluation
    return finding(
        f"untrained/{name}/final",
        f"{meaning(name).says}; the untrained model",
        interval,
        evidence.card.level,
        unit=meaning(name).unit,
        value=measure.value,
        reason=measure.why,
        method=interval.method if interval else "mean over completions of the shared evaluation",
        k=measure.k,
        n=measure.n,
        window="shared evaluation",
        sources=(evidence.source(path),) if measure.why != "it was not evaluated" else (),
    )


def condition_finding(evidence: Evidence, condition: str, name: str, statistic: str, *, everyone: bool = False) -> Finding:
    """Mean over a condition's runs with a t interval over seeds; of equal shares of completions, with the completions' own error."""
    seeds, level = Group(evidence, condition, name, statistic, everyone=everyone), evidence.card.level
    values = seeds.values
    interval = mean(values, level, seeds.scale) if values else None
    interval = _or_of_completions(evidence, interval, name, statistic, seeds)
    if interval and interval.low is not None and interval.high is not None and meaning(name).share and statistic != "change":
        low, high = max(0.0, interval.low), min(1.0, interval.high)
        if (low, high) != (interval.low, interval.high):
            interval = interval._replace(low=low, high=high, method=f"{interval.method}, limited to 0..1")
    caveat = "; the untrained model's own sampling error is not in it"
    caveat = caveat if name.startswith("evaluation.") and statistic == "change" and not (interval and interval.equal) else ""
    return finding(
        f"{condition}/{name}/{statistic}{WITH_EXCLUDED if everyone else ''}",
        _says(evidence, seeds.runs, name, statistic, f"mean over the seeds of {condition}"),
        interval,
        level,
        statistic=statistic,
        unit=meaning(name).unit,
        value=interval.value if interval else None,
        reason=seeds.nothing,
        method=(interval.method if interval else "mean over seeds") + caveat,
        n=len(values),
        window=_window(evidence, seeds.runs, name, statistic),
        seeds=seeds.seeds,
        sources=_sources(evidence, seeds.runs, name, statistic, interval),
        with_all=mean(seeds.all_values, level).value if seeds.any_excluded and not everyone else None,
        detectable=detectable([values], level) if statistic == "change" and interval and not interval.equal else None,
    )


def contrast_finding(evidence: Evidence, treated: str, against: str, name: str, statistic: str, *, everyone: bool = False) -> Finding:
    """Difference between two conditions with Welch's t interval. Its id ends with the statistic that is compared."""
    left, right = (Group(evidence, condition, name, statistic, everyone=everyone) for condition in (treated, against))
    level, interval, reason = evidence.card.level, None, (right if left.values else left).nothing
    if left.values and right.values:
        scale = max(left.scale, right.scale)
        interval = difference(left.values, right.values, level, scale)
        if not math.isfinite(interval.value):
            interval, reason = None, f"the difference is {TOO_LARGE}"
    interval = _or_of_completions(evidence, interval, name, statistic, left, right)
    runs, with_all = (*left.runs, *right.runs), None
    if not everyone and (left.any_excluded or right.any_excluded) and left.all_values and right.all_values:
        gap = difference(left.all_values, right.all_values, level).value
        with_all = gap if math.isfinite(gap) else None
    return finding(
        f"{treated}-vs-{against}/{name}/{statistic}{WITH_EXCLUDED if everyone else ''}",
        _says(evidence, runs, name, statistic, f"{treated} minus {against}"),
        interval,
        level,
        statistic="difference",
        unit=meaning(name).unit,
        value=interval.value if interval else None,
        reason=reason,
        method=interval.method if interval else "difference of means over seeds",
        n=interval.n if interval else 0,
        window=_window(evidence, runs, name, statistic),
        seeds=(*left.seeds, *right.seeds),
        sources=_sources(evidence, runs, name, statistic, interval),
        with_all=with_all,
        detectable=detectable([left.values, right.values], level) if interval and not interval.equal else None,
    )


def finding(id_: str, says: str, interval: Interval | None = None, level: float | None = None, **fields: Any) -> Finding:
    """A finding whose id is `<subject>/<metric>/<statistic>`. The reason is kept only where there is no value, the level only where the
    interval has ends."""
    subject, metric, statistic = id_.split("/")
    made = {"subject": subject, "metric": metric, "statistic": statistic, **fields}
    if fields["value"] is not None:
        made["reason"] = ""
    if interval is not None:
        bounded = interval.low is not None
        made |= {"low": interval.low, "high": interval.high, "level": level if bounded else None, "equal_seeds": interval.equal}
    return Finding(id=id_, says=says, **made)


def count_of_runs(
    id_: str, says: str, method: str, counts: Sequence[tuple[RunEvidence, bool, str]], sources: Sequence[Source], reason: str = ""
) -> Finding:
    """How many runs count; `counts`: each run, whether it does, and why."""
    k = sum(holds for _, holds, _ in counts)
    return finding(
        id_,
        says,
        unit="runs",
        value=float(k) if counts else None,
        reason=reason or "there is no run",
        method=method,
        k=k,
        n=len(counts),
        seeds=tuple(SeedValue(run=r.ref.name, seed=r.ref.seed, value=float(holds), included=True, why=why) for r, holds, why in counts),
        sources=tuple(sources),
    )


def _or_of_completions(
    evidence: Evidence, interval: Interval | None, name: str, statistic: str, seeds: Group, against: Group | None = None
) -> Interval | None:
    """The interval over seeds; where these do not differ and are shares of completions, that of the completions."""
    if interval is None or not interval.equal:
        return interval
    evaluated = name.startswith("evaluation.")
    plus, minus = [_share(evidence, seeds, name, statistic)], [_share(evidence, against, name, statistic)] if against else []
    if statistic == "change" and not (against and evaluated):  # of two changes from the untrained model its own share cancels
        minus.append(_share(evidence, seeds, name, "initial"))
        plus += [_share(evidence, against, name, "initial")] if against else []
    added, taken = [share for share in plus if share], [share for share in minus if share]
    return of_completions(interval, added, taken, evidence.card.level) if len(added + taken) == len(plus + minus) else interval


def _share(evidence: Evidence, seeds: Group, name: str, statistic: str) -> Share | None:
    """What the seeds that count are a share of; of a change its later part. None where that is not known of all of them. Seeds of the
    shared evaluation that show no difference count once, because the same prompts made them."""
    evaluated = name.startswith("evaluation.")
    if evaluated and statistic == "initial":
        measures = [evidence.measures["untrained", name, "final"]]
    else:
        part = "final" if statistic == "change" else statistic
        measures = [evidence.measures[run, name, part] for run in seeds.counting]
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
        share = evidence.card.windows.initial if statistic == "initial" else evidence.card.windows.final
        when = f"mean over the {end} {share:.0%} of each run's steps"
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
    if statistic == "change":
        return f"{evidence.window(runs[0].ref, 'final')} minus {evidence.window(runs[0].ref, 'initial')}"
    return str(evidence.window(runs[0].ref, statistic))


def _sources(
    evidence: Evidence, runs: Sequence[RunEvidence], name: str, statistic: str, interval: Interval | None = None
) -> tuple[Source, ...]:
    """Files that hold the values, the untrained model's first when a change rests on it."""
    if name.startswith("evaluation."):
        files = [(run.place.evaluation, run.evaluated_attempt) for run in runs if run.evaluated]
        if statistic == "change" and evidence.measures["untrained", name, "final"].why != "it was not evaluated":
            files.insert(0, (evidence.folder.untrained.evaluation, None))
    else:
        files = [(run.place.imported if run.only_summary else run.place.history, run.attempt) for run in runs if run.exists]
    return tuple(evidence.source(path, attempt) for path, attempt in files)
