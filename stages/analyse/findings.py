"""Findings over seeds: values of runs, means of conditions, differences between conditions, the untrained model.

Every finding is a row of `findings.csv`, where ids and texts stand with holes in braces, and a number.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.analyse.evidence import Evidence, RunEvidence
from stages.analyse.frames import POINTS
from stages.analyse.measures import NOT_EVALUATED, Measure
from stages.analyse.statistics import Interval, Share, completions_interval, detectable, estimate, proportion
from stages.contracts.finding import Finding, SeedValue, Source
from stages.contracts.layout import ExperimentFolder

WITH_EXCLUDED = "-with-excluded"
"""Added to the statistic of a finding that counts excluded runs too."""
with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _table:
    _KINDS = {row.pop("kind"): row for row in csv.DictReader(_table)}


def finding(
    evidence: Evidence, kind: str, value: float | None, interval: Interval | None = None, *, words: Mapping[str, Any], **fields: Any
) -> Finding:
    """A finding of a kind of the table. `words` fill its texts, `fields` replace them. The reason is kept only where there is no value, the
    level only where the interval has ends."""
    texts = {column: text.format(**words) for column, text in _KINDS[kind].items()}
    subject, metric, statistic = texts["id"].split("/")
    fields = {"subject": subject, "metric": metric, "statistic": statistic, "value": value, **texts, **fields}
    if value is not None:
        fields["reason"] = ""
    if interval is not None:
        level = None if interval.low is None else evidence.card.level
        fields |= {"low": interval.low, "high": interval.high, "level": level, "equal_seeds": interval.equal}
    return Finding(**fields)


def runs_finding(
    evidence: Evidence, kind: str, counts: Iterable[tuple[RunEvidence, bool, str]], words: Mapping[str, Any], sources: tuple[Source, ...]
) -> Finding:
    """How many runs count; `counts`: each run, whether it does, and why."""
    seeds = tuple(SeedValue(run=run.ref.name, seed=run.ref.seed, value=float(holds), included=True, why=why) for run, holds, why in counts)
    k, n = sum(seed.value == 1.0 for seed in seeds), len(seeds)
    return finding(evidence, kind, float(k) if seeds else None, words={"runs": n, **words}, k=k, n=n, seeds=seeds, sources=sources)


def seeds_of(finding: Finding, evidence: Evidence, condition: str) -> list[SeedValue]:
    """A condition's runs in a finding."""
    names = {run.ref.name for run in evidence.runs_of(condition)}
    return [seed for seed in finding.seeds if seed.run in names]


def values_of(seeds: Iterable[SeedValue]) -> list[float]:
    """Values of the runs that count."""
    return [seed.value for seed in seeds if seed.included and seed.value is not None]


def run_finding(evidence: Evidence, run: RunEvidence, name: str, statistic: str) -> Finding:
    """One run's value. Shares of its evaluation carry k/n. A window's mean has no interval, because a run is one trajectory; its change
    has one from its steps, which is about this run and says nothing of other seeds."""
    measure = evidence.measures[run.ref.name, name, statistic]
    interval = _proportion(evidence, measure) or measure.interval
    method = "completions of the shared evaluation" if name.startswith("evaluation.") else "mean over the logged steps of one run"
    return finding(
        evidence,
        "run",
        measure.value,
        interval,
        words={"run": run.ref.name, **_words(evidence, [run], name, statistic)},
        reason=measure.why,
        method="; ".join(filter(None, (measure.method or (interval.method if interval else method), measure.part))),
        k=measure.k,
        n=measure.interval.n if measure.interval else measure.n,
        sources=evidence.sources(_files(evidence, [run], name, statistic)),
        detectable=measure.interval.detectable if measure.interval else None,
    )


def untrained_finding(evidence: Evidence, name: str) -> Finding:
    """The base model on the shared evaluation."""
    measure = evidence.measures["untrained", name, "final"]
    interval = _proportion(evidence, measure)
    own: dict[str, Any] = {"reason": measure.why, "k": measure.k, "n": measure.n} | ({"method": interval.method} if interval else {})
    own["sources"] = evidence.sources(_untrained_files(evidence, name))
    meaning = evidence.meaning(name)
    words = {"metric": name, "unit": meaning.unit, "meaning": meaning.says}
    return finding(evidence, "untrained", measure.value, interval, words=words, **own)


def seeds_finding(evidence: Evidence, conditions: Sequence[str], name: str, statistic: str, *, everyone: bool = False) -> Finding:
    """Mean over a condition's runs with a t interval over seeds, or the first of two conditions minus the second with Welch's. Of equal
    shares of completions the interval is the completions' own. The id ends with the statistic that is averaged or compared. `everyone`:
    excluded runs count too."""
    groups = [[_seed(evidence, run, name, statistic, everyone=everyone) for run in evidence.runs_of(condition)] for condition in conditions]
    values, level = [values_of(group) for group in groups], evidence.card.level
    every = [[seed.value for seed in group if seed.value is not None] for group in groups]
    runs = [run for condition in conditions for run in evidence.runs_of(condition)]
    contrast = len(groups) > 1
    interval = _seeds_interval(evidence, groups, name, statistic) if all(values) else None
    method = interval.method if interval else "difference of means over seeds" if contrast else "mean over seeds"
    if name.startswith("evaluation.") and statistic == "change" and not contrast and not (interval and interval.equal):
        method += "; the untrained model's own sampling error is not in it"
    excluded = not everyone and every != values and all(every)
    whose = " minus ".join(conditions) if contrast else f"mean over the seeds of {conditions[0]}"
    words = {"subject": "-vs-".join(conditions), "whose": whose, **_words(evidence, runs, name, statistic)}
    words["statistic"] += WITH_EXCLUDED if everyone else ""
    empty = [_nothing(condition, group) for condition, group in zip(conditions, groups, strict=True) if not values_of(group)]
    return finding(
        evidence,
        "seeds",
        interval.value if interval else None,
        interval,
        words=words,
        reason=empty[0] if empty else "",
        statistic="difference" if contrast else statistic,
        method=method,
        n=interval.n if interval else 0,
        seeds=tuple(seed for group in groups for seed in group),
        sources=evidence.sources(_files(evidence, runs, name, statistic)),
        with_all=estimate(every, level).value if excluded else None,
        detectable=detectable(values, level) if interval and not interval.equal and (contrast or statistic == "change") else None,
    )


def _seeds_interval(evidence: Evidence, groups: Sequence[Sequence[SeedValue]], name: str, statistic: str) -> Interval:
    scale = max(evidence.measures[seed.run, name, statistic].scale for group in groups for seed in group)
    counting = [[seed.run for seed in group if seed.included] for group in groups]
    counted = {run for group in counting for run in group}
    least, most = evidence.bounds(name, {run.ref.condition for run in (*evidence.runs, *evidence.others) if run.ref.name in counted})
    sides = len(groups) * (2 if statistic == "change" else 1)
    if sides > 1:  # a difference of one value and of those on the other side
        most = None if least is None or most is None else (most - least) * sides / 2
        least = None if most is None else -most
    interval = estimate([values_of(group) for group in groups], evidence.card.level, scale, (least, most))
    return _of_completions(evidence, interval, name, statistic, counting) if interval.equal else interval


def _seed(evidence: Evidence, run: RunEvidence, name: str, statistic: str, *, everyone: bool) -> SeedValue:
    measure = evidence.measures[run.ref.name, name, statistic]
    why = measure.part or measure.why if run.included else "; ".join(filter(None, (run.why_not, measure.part)))
    included = measure.value is not None and (run.included or everyone)
    return SeedValue(run=run.ref.name, seed=run.ref.seed, value=measure.value, included=included, why=why)


def _nothing(condition: str, seeds: Sequence[SeedValue]) -> str:
    """Why a condition has no value: each run's reason once."""
    reasons = [f"{seed.run}: {seed.why}" for seed in seeds if seed.why]
    return f"no run of {condition} counts ({'; '.join(reasons)})" if reasons else f"{condition} has no runs"


def _proportion(evidence: Evidence, measure: Measure) -> Interval | None:
    return proportion(measure.k, measure.n, evidence.card.level) if measure.k is not None and measure.n else None


def _of_completions(evidence: Evidence, interval: Interval, name: str, statistic: str, groups: Sequence[Sequence[str]]) -> Interval:
    """Of seeds that do not differ: the interval of their completions, where the values are shares of them. `groups`: runs that count."""
    ends = [_share(evidence, group, name, "final" if statistic == "change" else statistic) for group in groups]
    plus, minus = ends[:1], ends[1:]
    if statistic == "change" and not (minus and name.startswith("evaluation.")):  # the untrained model's own share cancels
        starts = [_share(evidence, group, name, "initial") for group in groups]
        plus, minus = [*plus, *starts[1:]], [*minus, *starts[:1]]
    added, taken = [share for share in plus if share], [share for share in minus if share]
    complete = len(added + taken) == len(plus + minus)
    return completions_interval(interval, added, taken, evidence.card.level) if complete else interval


def _share(evidence: Evidence, runs: Sequence[str], name: str, statistic: str) -> Share | None:
    """What the seeds that count are a share of; None where that is not known of all of them. Seeds of the shared evaluation that show no
    difference count once, because the same prompts made them."""
    evaluated = name.startswith("evaluation.")
    names = ["untrained"] if evaluated and statistic == "initial" else runs
    measures = [evidence.measures[run, name, "final" if evaluated else statistic] for run in names]
    worth = [measure.worth for measure in measures if measure.worth]
    value = sum(measure.value or 0.0 for measure in measures) / len(measures)
    if len(worth) < len(measures) or not 0 <= value <= 1:
        return None
    if not evaluated:
        return Share(value, sum(worth), f"the completions of {sum(worth):,.0f} steps")
    k, n = sum(measure.k or 0 for measure in measures), sum(measure.n or 0 for measure in measures)
    return Share(value, min(worth), f"{k:,} of {n:,} completions")


def _words(evidence: Evidence, runs: Sequence[RunEvidence], name: str, statistic: str) -> dict[str, str]:
    """What fills the texts of a value of runs."""
    change, targets = statistic == "change", {run.ref.span for run in runs}
    ends = ("final", "initial") if change else (statistic,)
    if name.startswith("evaluation."):
        untrained = " minus the untrained model" if change else ""
        when, window = f"after training{untrained}", f"shared evaluation at the end{untrained}"
    elif runs and all(run.only_summary for run in runs):
        methods = {measure.method for run in runs if (measure := evidence.measures[run.ref.name, name, statistic]).method}
        when, window = methods.pop() if len(methods) == 1 else "from the sources' summaries", "no window: a value of the source's summary"
    else:
        so_far = " so far" if any(run.goes_on for run in runs) else ""
        part = f"{getattr(evidence.card.windows, 'final' if ends[0] in POINTS else ends[0], 1.0):.0%} of each run's steps{so_far}"
        window = "windows differ between runs"
        if len(targets) == 1 and statistic != "mean":
            part = f"{runs[0].windows[ends[0]].length} of {targets.pop()} steps{so_far}"
            window = " minus ".join(str(runs[0].windows[end]) for end in ends)
        place = {"initial": "the first ", "final": "the last "}.get(statistic, "")
        when = "last window minus first window" if change else f"mean over {place}{part}"
        when += f" about {POINTS[statistic]}% of the way" if statistic in POINTS else ""
    if statistic == "mean":
        when, window = "mean over all logged steps", "all logged steps"
    measured = evidence.meaning(name)
    return {"metric": name, "statistic": statistic, "unit": measured.unit, "meaning": measured.says, "when": when, "window": window}


def _untrained_files(evidence: Evidence, name: str) -> list[tuple[Path, str | None]]:
    evaluated = evidence.measures["untrained", name, "final"].why != NOT_EVALUATED
    return [(evidence.folder.untrained.evaluation, None)] if evaluated else []


def _files(evidence: Evidence, runs: Sequence[RunEvidence], name: str, statistic: str) -> list[tuple[Path, str | None]]:
    """Files that hold the values, with their attempts; the untrained model's first when a change rests on it."""
    if not name.startswith("evaluation."):
        logs = [run for run in runs if run.log.card_id is not None]
        return [(run.place.imported if run.only_summary else run.place.history, run.log.attempt) for run in logs]
    evaluations = [(run.place.evaluation, run.evaluated_attempt) for run in runs if run.evaluated]
    folders = dict.fromkeys(ExperimentFolder(run.place.root.parent) for run in runs if statistic == "change")
    untrained = [(folder.untrained.evaluation, None) for folder in folders if folder.untrained.evaluation.exists()]
    return [*untrained, *evaluations]
