"""Findings made of runs: values of runs, means of conditions, differences between conditions, the untrained model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from stages.analyse.bounded import bounded
from stages.analyse.evidence import Evidence, RunEvidence, meaning
from stages.analyse.groups import Group, group
from stages.analyse.statistics import Interval, detectable, difference, mean, of_completions, proportion, trend
from stages.contracts.finding import Finding, Source

WITH_EXCLUDED = "-with-excluded"
"""Added to the statistic of a finding that counts excluded runs too."""


def run_finding(evidence: Evidence, run: RunEvidence, name: str, statistic: str, level: float) -> Finding:
    """One run's value. Shares of its evaluation carry k/n; a window's mean has no interval, because a run is one
    trajectory; its change has one from its correlated steps, which is about this run and says nothing of other seeds."""
    measured = evidence.value(run, name, statistic)
    interval = proportion(measured.k, measured.n, level) if measured.k is not None and measured.n else None
    evaluation = name.startswith("evaluation.")
    smallest = None
    if statistic == "change" and not evaluation and not run.only_summary and measured.value is not None:
        before, after = run.trace.rows[name, "initial"], run.trace.rows[name, "final"]
        if before is not None and after is not None:
            interval = trend(before, after, run.trace.correlation[name], level, run.trace.wander[name])
            smallest = interval.detectable
            measured = replace(measured, k=None, n=interval.n)
    method = "completions of the shared evaluation" if evaluation else "mean over the logged steps of one run"
    return bounded(
        f"{run.ref.name}/{name}/{statistic}",
        _says(evidence, [run], name, statistic, f"run {run.ref.name}"),
        unit=meaning(name).unit,
        value=measured.value,
        reason=measured.why,
        interval=interval,
        level=level,
        method="; ".join(part for part in (measured.method or (interval.method if interval else method), measured.part) if part),
        k=measured.k,
        n=measured.n,
        window=_window(evidence, [run], name, statistic),
        sources=_sources(evidence, [run], name, statistic),
        smallest=smallest,
    )


def untrained_finding(evidence: Evidence, name: str, level: float) -> Finding:
    """The base model on the shared evaluation."""
    measured = evidence.evaluated(evidence.untrained, name)
    interval = proportion(measured.k, measured.n, level) if measured.k is not None and measured.n else None
    known = evidence.untrained.scores
    return bounded(
        f"untrained/{name}/final",
        f"{meaning(name).says}; the untrained model",
        unit=meaning(name).unit,
        value=measured.value,
        reason=measured.why,
        interval=interval,
        level=level,
        method=interval.method if interval else "mean over completions of the shared evaluation",
        k=measured.k,
        n=measured.n,
        window="shared evaluation",
        sources=(evidence.source(evidence.untrained.path),) if known else (),
    )


def condition_finding(evidence: Evidence, condition: str, name: str, statistic: str, level: float, *, everyone: bool = False) -> Finding:
    """Mean over a condition's runs with a t interval over seeds; of equal shares of completions, with the completions' own error."""
    runs = group(evidence, condition, name, statistic, everyone=everyone)
    values = runs.values
    interval = mean(values, level, runs.scale) if values else None
    interval = _or_of_completions(interval, runs, None, level)
    share, suffix = meaning(name).share and statistic != "change", WITH_EXCLUDED if everyone else ""
    if interval and interval.low is not None and interval.high is not None and share and (interval.low < 0 or interval.high > 1):
        method = f"{interval.method}, limited to 0..1"
        interval = replace(interval, low=max(0.0, interval.low), high=min(1.0, interval.high), method=method)
    return bounded(
        f"{condition}/{name}/{statistic}{suffix}",
        _says(evidence, runs.runs, name, statistic, f"mean over the seeds of {condition}"),
        unit=meaning(name).unit,
        kind=statistic,
        value=interval.value if interval else None,
        reason=runs.nothing,
        interval=interval,
        level=level,
        method=(interval.method if interval else "mean over seeds") + ("" if interval and interval.equal else _caveat(name, statistic)),
        n=len(values),
        window=_window(evidence, runs.runs, name, statistic),
        seeds=runs.seeds,
        sources=_sources(evidence, runs.runs, name, statistic, interval),
        with_all=mean(runs.all_values, level).value if runs.any_excluded and not everyone else None,
        without_gate={} if everyone else {gate: mean(runs.values_without(gate), level).value for gate in sorted(runs.gates)},
        smallest=detectable([values], level) if statistic == "change" and interval and not interval.equal else None,
    )


def contrast_finding(
    evidence: Evidence, treated: str, against: str, name: str, statistic: str, level: float, *, everyone: bool = False
) -> Finding:
    """Difference between two conditions with Welch's t interval. Its id ends with the statistic that is compared."""
    left = group(evidence, treated, name, statistic, everyone=everyone)
    right = group(evidence, against, name, statistic, everyone=everyone)
    scale = max(left.scale, right.scale)
    interval = difference(left.values, right.values, level, scale) if left.values and right.values else None
    reason = (right if left.values else left).nothing
    if interval is not None and not math.isfinite(interval.value):
        interval, reason = None, "the difference is larger than any number that a computer holds"
    interval = _or_of_completions(interval, left, right, level)
    runs, suffix = (*left.runs, *right.runs), WITH_EXCLUDED if everyone else ""
    full = None
    if not everyone and (left.any_excluded or right.any_excluded) and left.all_values and right.all_values:
        gap = difference(left.all_values, right.all_values, level).value
        full = gap if math.isfinite(gap) else None
    return bounded(
        f"{treated}-vs-{against}/{name}/{statistic}{suffix}",
        _says(evidence, runs, name, statistic, f"{treated} minus {against}"),
        unit=meaning(name).unit,
        kind="difference",
        value=interval.value if interval else None,
        reason=reason,
        interval=interval,
        level=level,
        method=interval.method if interval else "difference of means over seeds",
        n=interval.n if interval else 0,
        window=_window(evidence, runs, name, statistic),
        seeds=(*left.seeds, *right.seeds),
        sources=_sources(evidence, runs, name, statistic, interval),
        with_all=full,
        without_gate={} if everyone else _without(left, right, level),
        smallest=detectable([left.values, right.values], level) if interval and not interval.equal else None,
    )


def _or_of_completions(interval: Interval | None, group: Group, against: Group | None, level: float) -> Interval | None:
    """The interval over seeds; where these do not differ and are shares of completions, that of the completions."""
    if interval is None or not interval.equal:
        return interval
    plus, minus = [group.count], [against.count] if against else []
    if group.change and not (against and group.evaluated):  # of two changes from the untrained model its own share cancels
        minus, plus = [*minus, group.start], [*plus, against.start] if against else plus
    added, taken = [[count for count in counts if count is not None] for counts in (plus, minus)]
    if len(added) != len(plus) or len(taken) != len(minus):
        return interval
    return replace(of_completions(added, taken, level), value=interval.value, n=interval.n)


def _without(left: Group, right: Group, level: float) -> dict[str, float]:
    """The difference without each gate that alone keeps a run of either condition out."""
    found = {}
    for gate in sorted(left.gates | right.gates):
        treated, against = left.values_without(gate), right.values_without(gate)
        if treated and against:
            found[gate] = difference(treated, against, level).value
    return {gate: value for gate, value in found.items() if math.isfinite(value)}


def _says(evidence: Evidence, runs: Sequence[RunEvidence], name: str, statistic: str, who: str) -> str:
    what = meaning(name).says
    if name.startswith("evaluation."):
        when = "after training minus the untrained model" if statistic == "change" else "after training"
    elif runs and all(run.only_summary for run in runs):
        methods = sorted({m for run in runs if (m := evidence.value(run, name, statistic).method)})
        when = methods[0] if len(methods) == 1 else "from the sources' summaries"
    elif statistic == "change":
        when = "last window minus first window"
    else:
        targets = {run.ref.target_steps for run in runs}
        end = "first" if statistic == "initial" else "last"
        if len(targets) == 1:
            when = f"mean over the {end} {evidence.window(runs[0].ref, statistic).length} of {targets.pop()} steps"
        else:
            share = evidence.windows.initial if statistic == "initial" else evidence.windows.final
            when = f"mean over the {end} {share:.0%} of each run's steps"
    return f"{what}; {when}; {who}"


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
    """Files that hold the values, the untrained model's first when a change rests on it; last the completions that an interval of equal
    seeds was counted from."""
    if name.startswith("evaluation."):
        files = [(run.evaluation.path, run.evaluation.attempt) for run in runs if run.evaluation.scores]
        if statistic == "change" and evidence.untrained.scores:
            files.insert(0, (evidence.untrained.path, None))
    else:
        files = [(run.place.imported if run.only_summary else run.trace.path, run.trace.attempt) for run in runs if run.trace.exists]
        if interval is not None and interval.equal and interval.low is not None:
            files += [(run.place.completions, run.trace.attempt) for run in runs if run.place.completions.exists()]
    return tuple(evidence.source(path, attempt) for path, attempt in files)


def _caveat(name: str, statistic: str) -> str:
    if name.startswith("evaluation.") and statistic == "change":
        return "; the untrained model's own sampling error is not in it"
    return ""
