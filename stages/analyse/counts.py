"""Findings that count: gates reached and passed, attempts, steps done, runs included, and what questions ask of detectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stages.analyse.evidence import Evidence, RunEvidence
from stages.analyse.findings import count_of_runs, finding
from stages.analyse.statistics import proportion
from stages.contracts.finding import Finding, SeedValue
from stages.contracts.health import Detection, Signal
from stages.contracts.preflight_card import PreflightResult

SIGNAL = ("collapse", "zero_signal")
"""Detectors that say whether groups keep a reward signal."""
_REACHED = "Share of the completions that reached the gate {gate} "
SAYS = {
    "reach": "Share of completions that reached the gate {gate}",
    "pass": _REACHED + "and passed it",
    "fail": _REACHED + "and failed it",
    "unknown": _REACHED + "without a known answer",
}


def count_findings(evidence: Evidence) -> Iterator[Finding]:
    """All counting findings, condition by condition."""
    results = {result.condition: result for result in (evidence.preflight.results if evidence.preflight else ())}
    for condition in evidence.card.conditions:
        runs = evidence.runs_of(condition.name)
        if condition.name in results:
            yield from _preflight(evidence, results[condition.name])
        for gate in condition.gates:
            for statistic in ("initial", "final"):
                yield from _training(evidence, condition.name, runs, gate, statistic)
        yield from (_attempts(evidence, condition.name, runs), _included(evidence, condition.name, runs))
    yield from (_attempts(evidence, "experiment", evidence.runs), _included(evidence, "experiment", evidence.runs))
    yield from (_steps(evidence, run) for run in evidence.runs)


def _share(id_: str, says: str, k: int, n: int, level: float | None, **fields: Any) -> Finding:
    """k of n; with Wilson's interval when a level is given."""
    interval = proportion(k, n, level) if level is not None and n else None
    return finding(id_, says, interval, level, unit="share", value=k / n if n else None, k=k, n=n, **fields)


def _preflight(evidence: Evidence, result: PreflightResult) -> Iterator[Finding]:
    """Shares on completions of the untrained model. Completions of one prompt are not quite independent; the method says so."""
    fields: dict[str, Any] = {"window": "preflight, untrained model", "sources": (evidence.source(evidence.folder.preflight),)}
    shares: list[tuple[str, str, int, int]] = []
    for gate in result.funnel:
        for outcome, k in zip(SAYS, (gate.reached, gate.passed, gate.failed, gate.unknown), strict=True):
            n = result.completions if outcome == "reach" else gate.reached
            shares.append((f"gate.{gate.gate}.{outcome}", SAYS[outcome].format(gate=gate.gate), k, n))
    silent = "Share of groups whose known rewards are all equal"
    shares.append(("zero_signal_share", silent, result.zero_signal_groups, result.groups))
    shares.append(("truncated", "Share of completions cut at max_completion_length", result.truncated, result.completions))
    shares.append(("unknown_share", "Share of completions whose reward is unknown", result.unknown, result.completions))
    for metric, says, k, n in shares:
        counted = "groups" if metric == "zero_signal_share" else "completions"
        id_, says = f"{result.condition}/{metric}/preflight", f"{says}; preflight of {result.condition}"
        method = f"Wilson interval over {counted}, which share prompts"
        yield _share(id_, says, k, n, evidence.card.level, method=method, reason=f"no {counted}", **fields)
    yield finding(
        f"{result.condition}/reward/preflight",
        f"Mean reward of completions of the untrained model; preflight of {result.condition}",
        unit="reward",
        value=result.reward_mean,
        reason="no completion has a known reward",
        method="mean over completions",
        n=result.completions - result.unknown,
        **fields,
    )


def _training(evidence: Evidence, condition: str, runs: Sequence[RunEvidence], gate: str, statistic: str) -> Iterator[Finding]:
    """A gate in the first or last window of training, pooled over the included runs."""
    sampled = [run for run in runs if run.gates[gate, statistic]["completions"]]
    used = [run for run in sampled if run.included]
    windows = sorted({str(evidence.window(run.ref, statistic)) for run in runs})
    for outcome in SAYS:
        parts = {run.ref.name: _parts(run.gates[gate, statistic], outcome) for run in runs}
        k, n = (sum(parts[run.ref.name][place] for run in used) for place in (0, 1))
        every_k, every_n = (sum(parts[run.ref.name][place] for run in sampled) for place in (0, 1))
        yield _share(
            f"{condition}/gate.{gate}.{outcome}/{statistic}",
            f"{SAYS[outcome].format(gate=gate)}; {statistic} window of training; {condition}",
            k,
            n,
            None,
            sources=tuple(evidence.source(run.place.completions, run.attempt) for run in used),
            window=windows[0] if len(windows) == 1 else "windows differ between runs",
            method=f"completions of {len(used)} included runs pooled; no interval: completions of one run are not independent",
            reason="no included run has completions that reached the gate in the window",
            seeds=tuple(_seed(run, *parts[run.ref.name]) for run in runs),
            with_all=every_k / every_n if len(sampled) > len(used) and every_n else None,
        )


def _parts(counts: Mapping[str, int], outcome: str) -> tuple[int, int]:
    """k of n: `reach` of all completions, the others of those that reached the gate."""
    reached = counts["pass"] + counts["fail"] + counts["unknown"]
    return (reached, counts["completions"]) if outcome == "reach" else (counts[outcome], reached)


def _seed(run: RunEvidence, k: int, n: int) -> SeedValue:
    why = run.why_not if not run.included else "" if n else "no completion reached the gate in the window"
    return SeedValue(run=run.ref.name, seed=run.ref.seed, value=k / n if n else None, included=run.included and n > 0, why=why)


def _attempts(evidence: Evidence, subject: str, runs: Sequence[RunEvidence]) -> Finding:
    """Finished attempts of all attempts, from the ledger as it is now; of runs that were only read, finished ones of all logs."""
    every = [attempt.state for run in runs for attempt in evidence.attempts[run.ref.name]]
    states = [state for state in every if state != "unknown"]
    unknown = len(every) - len(states)
    logs = bool(runs) and all(run.only_read for run in runs)
    counted = "imported runs, each log once" if logs else "attempts"
    return _share(
        f"{subject}/attempts/finished",
        f"Share of {counted} that finished; {subject}",
        states.count("finished"),
        len(states),
        evidence.card.level,
        sources=tuple(evidence.source(run.place.attempts) for run in runs if evidence.attempts[run.ref.name]),
        window="the newest reading of each log" if logs else "all attempts in the ledger",
        method=f"Wilson interval over {counted}" + (f"; {unknown} whose end is unknown are left out" if unknown else ""),
        reason="of no attempt is it known whether it finished" if every else "no attempt is in the ledger",
    )


def _included(evidence: Evidence, subject: str, runs: Sequence[RunEvidence]) -> Finding:
    says = f"Runs that pass the health gates, of {len(runs)}; {subject}"
    counts = [(run, run.included, run.why_not) for run in runs]
    count = count_of_runs(f"{subject}/runs/included", says, "counted", counts, evidence.healths(runs))
    seeds = tuple(seed.model_copy(update={"included": run.included}) for seed, run in zip(count.seeds, runs, strict=True))
    with_all = None if all(run.included for run in runs) else float(len(runs))
    return count.model_copy(update={"seeds": seeds, "with_all": with_all, "value": count.value or 0.0, "reason": ""})


def _steps(evidence: Evidence, run: RunEvidence) -> Finding:
    done = run.health.steps_done if run.health else None
    return finding(
        f"{run.ref.name}/steps/done",
        f"Optimizer steps done, of {run.ref.target_steps}; run {run.ref.name}",
        unit="steps",
        value=None if done is None else float(done),
        reason=f"unknown (log ends at {run.last_step})",
        method="last logged step" if run.imported is not None and run.imported.steps == "unknown" else "the trainer's final state",
        k=done,
        n=run.ref.target_steps,
        sources=evidence.healths([run]),
    )


def question_findings(evidence: Evidence) -> Iterator[Finding]:
    """Findings of the sections that questions ask for."""
    asked, conditions = set(evidence.card.asked), {card.name: evidence.runs_of(card.name) for card in evidence.card.conditions}
    subjects = {**conditions, "experiment": evidence.runs}
    if {"anomalies", "signal"} & asked:
        for kind in dict.fromkeys(kind for run in evidence.runs for kind in _detections(run)):
            if "anomalies" in asked or kind in SIGNAL:
                yield from (_onset(evidence, run, kind) for run in evidence.runs)
                says = f"Runs in which the detector {kind} found something, of those that it looked at; "
                for condition, runs in conditions.items():
                    looked = [run for run in runs if kind in _looked(run)]
                    id_, nothing = f"{condition}/detector.{kind}/runs", f"the detector {kind} looked at no run"
                    yield _runs(evidence, id_, says + condition, looked, lambda run, kind=kind: _warnings(_looked(run)[kind]), nothing)
    if "anomalies" in asked:
        for subject, runs in subjects.items():
            looked, says = [run for run in runs if _looked(run)], f"Runs about which any detector warns; {subject}"
            yield _runs(evidence, f"{subject}/detectors/runs", says, looked, _warned, "no run was screened")
    if "completion" in asked:
        for subject, runs in subjects.items():
            says = f"Runs that did all their steps, of {len(runs)}; {subject}"
            yield _runs(evidence, f"{subject}/runs/complete", says, runs, _did_all_steps)


def _runs(evidence: Evidence, id_: str, says: str, runs: Sequence[RunEvidence], holds: Callable[..., Any], reason: str = "") -> Finding:
    counts = [(run, bool(holds(run)), "") for run in runs]
    return count_of_runs(id_, says, "counted; excluded runs too", counts, evidence.healths(runs), reason)


def _did_all_steps(run: RunEvidence) -> bool:
    return bool(run.health and run.health.steps_done and run.health.steps_done >= run.ref.target_steps)


def _detections(run: RunEvidence) -> dict[str, Detection]:
    return {detection.detector: detection for detection in run.health.detections} if run.health else {}


def _looked(run: RunEvidence) -> dict[str, Detection]:
    return {kind: detection for kind, detection in _detections(run).items() if detection.state == "looked"}


def _warned(run: RunEvidence) -> bool:
    return any(signal.severity != "info" for detection in _detections(run).values() for signal in detection.signals)


def _warnings(detection: Detection) -> list[Signal]:
    """Signals that are more than information. Of collapse all of them: a null control's is expected, and a collapse all the same."""
    return [signal for signal in detection.signals if signal.severity != "info" or signal.detector == "collapse"]


def _onset(evidence: Evidence, run: RunEvidence, kind: str) -> Finding:
    detection = _detections(run).get(kind)
    warnings = _warnings(detection) if detection else []
    steps = [signal.onset for signal in warnings if signal.onset is not None]
    if detection is None:
        why = "the run was not screened by it"
    elif detection.state != "looked":
        why = f"{detection.state.replace('_', ' ')}: {detection.reason}"
    else:
        why = "what it found has no first step" if warnings else "it looked and found nothing to warn about"
    return finding(
        f"{run.ref.name}/detector.{kind}/onset",
        f"First step of what the detector {kind} found; run {run.ref.name}",
        unit="steps",
        value=float(min(steps)) if steps else None,
        reason=why,
        method="the earliest onset among its signals, mere information left out",
        sources=evidence.healths([run]),
    )
