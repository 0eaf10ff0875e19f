"""Findings that only the page's tables show: steps and time, ranges of metrics, what each gate pays, and classes of errors."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from stages.analyse.evidence import Evidence, RunEvidence, history_metrics, shown_metrics
from stages.analyse.findings import finding, run_finding, seeds_finding, values_of
from stages.contracts.finding import Finding, SeedValue
from stages.contracts.history import metric, range_words

CLASSES = 6
"""Most classes of errors of a gate; the most frequent ones."""


def table_findings(evidence: Evidence) -> Iterator[Finding]:
    """All of them, condition by condition, then run by run."""
    shown = shown_metrics(evidence)
    for condition in evidence.card.conditions:
        runs = evidence.runs_of(condition.name)
        yield from (seeds_finding(evidence, [condition.name], name, "final") for name in shown)
        speed = seeds_finding(evidence, [condition.name], "step_seconds", "mean")
        yield from (speed, _hours(evidence, speed, runs), _steps(evidence, condition.name, runs))
        for name in (*history_metrics(evidence.card), *shown):
            yield from _range(evidence, condition.name, name, runs)
        for gate in condition.gates:
            yield from _errors(evidence, condition.name, gate, runs)
        if condition.name in evidence.card.weights:
            yield from _paid(evidence, condition.name, condition.gates, runs)
    for run in evidence.runs:
        yield from (run_finding(evidence, run, name, "final") for name in shown)
        speed = run_finding(evidence, run, "step_seconds", "mean")
        yield from (speed, _hours(evidence, speed, [run]))


def _hours(evidence: Evidence, speed: Finding, runs: Sequence[RunEvidence]) -> Finding:
    """Of a whole run at a mean speed; the interval is that of the speed."""
    target = runs[0].ref.target_steps if runs else 0
    value, low, high = (None if seconds is None else seconds * target / 3600 for seconds in (speed.value, speed.low, speed.high))
    interval = f"; {speed.method}" if low is not None else ""
    words = {"subject": speed.subject, "target": target, "interval": interval, "reason": speed.reason}
    level = speed.level if low is not None else None
    return finding(evidence, "hours", value, words=words, low=low, high=high, level=level, n=speed.n, sources=speed.sources)


def _steps(evidence: Evidence, condition: str, runs: Sequence[RunEvidence]) -> Finding:
    done = {run.ref.name: run.health.steps_done if run.health else None for run in runs}
    steps = {run.ref.name: run.log.last_step or None if done[run.ref.name] is None else done[run.ref.name] for run in runs}
    known = [float(step) for step in steps.values() if step is not None]
    seeds = tuple(_seed(run, step, "" if step is not None else "nothing is known") for run, step in zip(runs, steps.values(), strict=True))
    words = {"condition": condition, "runs": len(known)}
    value = statistics.mean(known) if known else None
    return finding(evidence, "mean-steps", value, words=words, n=len(known), seeds=seeds, sources=evidence.healths(runs))


def _range(evidence: Evidence, condition: str, name: str, runs: Sequence[RunEvidence]) -> Iterator[Finding]:
    """The lowest and the highest value of a metric with their places, and how many steps lie outside its healthy range."""
    ranges = {run.ref.name: run.ranges[name] for run in runs if name in run.ranges}
    if not ranges:
        return
    meaning, sources = evidence.meaning(name), evidence.histories([run for run in runs if run.ref.name in ranges])
    low, high = min(ranges, key=lambda run: ranges[run].lowest), max(ranges, key=lambda run: ranges[run].highest)
    ends = (("lowest", low, ranges[low].lowest, ranges[low].at_lowest), ("highest", high, ranges[high].highest, ranges[high].at_highest))
    for kind, run, value, step in ends:
        words = {"condition": condition, "metric": name, "unit": meaning.unit, "meaning": meaning.says, "window": f"step {step} of {run}"}
        yield finding(evidence, kind, value, words=words, sources=sources)
    known = metric(name)
    if known is not None and known.healthy != (None, None):
        k, n = sum(own.outside for own in ranges.values()), sum(own.n for own in ranges.values())
        words = {"condition": condition, "metric": name, "range": range_words(known.healthy)}
        yield finding(evidence, "outside", float(k), words=words, k=k, n=n, sources=sources)


def _errors(evidence: Evidence, condition: str, gate: str, runs: Sequence[RunEvidence]) -> Iterator[Finding]:
    """Failed completions by the class of their reason, the most frequent first; nothing where a gate has one class only."""
    used, totals = [run for run in runs if run.included], dict[str, int]()
    for run in used:
        for statistic in ("initial", "final"):
            for kind, k in run.errors[gate, statistic].items():
                totals[kind] = totals.get(kind, 0) + k
    sources = evidence.sources((run.place.completions, run.log.attempt) for run in used if run.gates[gate, "final"]["completions"])
    kinds = sorted(totals, key=lambda kind: (-totals[kind], kind))[:CLASSES] if len(totals) > 1 else []
    for place, kind in enumerate(kinds, 1):
        for statistic in ("initial", "final"):
            k = sum(run.errors[gate, statistic].get(kind, 0) for run in used)
            n = sum(run.gates[gate, statistic]["fail"] for run in used)
            words = {"condition": condition, "gate": gate, "place": place, "statistic": statistic, "reason_class": kind}
            words |= {"window": _window(runs, statistic), "included": len(used)}
            yield finding(evidence, "error", k / n if n else None, words=words, k=k, n=n, sources=sources)


def _paid(evidence: Evidence, condition: str, gates: Sequence[str], runs: Sequence[RunEvidence]) -> Iterator[Finding]:
    for statistic in ("initial", "final"):
        words = {"condition": condition, "statistic": statistic, "window": _window(runs, statistic)}
        sums, parts = dict[str, float](), list[Finding]()
        for gate in gates:
            measures = {run.ref.name: evidence.measures[run.ref.name, f"gate.{gate}.contribution", statistic] for run in runs}
            seeds = tuple(_seed(run, measures[run.ref.name].value, measures[run.ref.name].why, run.included) for run in runs)
            values = values_of(seeds)
            reason = next((measure.why for measure in measures.values() if measure.why), f"no run of {condition} counts")
            parts.append(
                finding(
                    evidence,
                    "paid",
                    statistics.mean(values) if values else None,
                    words={**words, "gate": gate, "reason": reason},
                    n=len(values),
                    seeds=seeds,
                    sources=evidence.sources((run.place.completions, run.log.attempt) for run in runs if run.included),
                )
            )
            sums |= {run: sums.get(run, 0.0) + measure.value for run, measure in measures.items() if measure.value is not None}
        yield from parts
        known = [part.value for part in parts if part.value is not None]
        whole = sum(known) if len(known) == len(gates) else None
        reason, sources = parts[0].reason, parts[0].sources
        seeds = tuple(_seed(run, sums.get(run.ref.name), "" if run.ref.name in sums else reason, run.included) for run in runs)
        yield finding(evidence, "paid-sum", whole, words={**words, "reason": reason}, n=parts[0].n, seeds=seeds, sources=sources)


def _window(runs: Sequence[RunEvidence], statistic: str) -> str:
    windows = {str(run.windows[statistic]) for run in runs}
    return windows.pop() if len(windows) == 1 else "windows differ between runs"


def _seed(run: RunEvidence, value: float | None, why: str, included: bool = True) -> SeedValue:
    why = why if included else run.why_not
    return SeedValue(run=run.ref.name, seed=run.ref.seed, value=value, included=included and value is not None, why=why)
