"""Findings that count: gates reached and passed, attempts, steps done, runs included, and what questions ask of detectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stages.analyse.evidence import Evidence, RunEvidence
from stages.analyse.findings import finding, runs_finding
from stages.analyse.statistics import proportion
from stages.contracts.finding import Finding, SeedValue
from stages.contracts.health import Detection, Signal
from stages.contracts.preflight_card import PreflightResult

SIGNAL = ("collapse", "zero_signal")
"""Detectors that say whether groups keep a reward signal."""
TABLED = ("collapse", "level", "nonfinite", "summary")
"""Detectors whose answers stand in tables or on the first screen; `summary` reads those of imported summaries."""
_REACHED = "Share of the completions that reached the gate {gate} "
OUTCOMES = {
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
                yield from (_gate(evidence, condition.name, runs, gate, outcome, statistic) for outcome in OUTCOMES)
        yield from (_attempts(evidence, condition.name, runs), _included(evidence, condition.name, runs))
    yield from (_attempts(evidence, "experiment", evidence.runs), _included(evidence, "experiment", evidence.runs))
    for run in evidence.runs:
        done = run.health.steps_done if run.health else None
        method = "last logged step" if run.imported is not None and run.imported.steps == "unknown" else "the trainer's final state"
        words = {"run": run.ref.name, "target": run.ref.target_steps, "last": run.log.last_step, "method": method}
        value, sources = None if done is None else float(done), evidence.healths([run])
        yield finding(evidence, "steps", value, words=words, k=done, n=run.ref.target_steps, sources=sources)


def _preflight(evidence: Evidence, result: PreflightResult) -> Iterator[Finding]:
    """Shares on completions of the untrained model. Completions of one prompt are not quite independent; the method says so."""
    sources, n = evidence.sources([(evidence.folder.preflight, None)]), result.completions
    shares: list[tuple[str, str, int, int]] = []
    for gate in result.funnel:
        for (outcome, says), k in zip(OUTCOMES.items(), (gate.reached, gate.passed, gate.failed, gate.unknown), strict=True):
            shares.append((f"gate.{gate.gate}.{outcome}", says.format(gate=gate.gate), k, n if outcome == "reach" else gate.reached))
    shares.append(("zero_signal_share", "Share of groups whose known rewards are all equal", result.zero_signal_groups, result.groups))
    shares.append(("truncated", "Share of completions cut at max_completion_length", result.truncated, n))
    shares.append(("unknown_share", "Share of completions whose reward is unknown", result.unknown, n))
    for metric, share, k, n in shares:
        counted = "groups" if metric == "zero_signal_share" else "completions"
        words = {"condition": result.condition, "metric": metric, "share": share, "counted": counted}
        yield _share(evidence, "preflight", k, n, words=words, sources=sources)
    words = {"condition": result.condition}
    yield finding(evidence, "preflight-reward", result.reward_mean, words=words, n=n - result.unknown, sources=sources)


def _share(evidence: Evidence, kind: str, k: int, n: int, **more: Any) -> Finding:
    """k of n with Wilson's interval."""
    return finding(evidence, kind, k / n if n else None, proportion(k, n, evidence.card.level) if n else None, k=k, n=n, **more)


def _gate(evidence: Evidence, condition: str, runs: Sequence[RunEvidence], gate: str, outcome: str, statistic: str) -> Finding:
    """A gate in the first or last window of training, pooled over the included runs."""
    parts = {run.ref.name: _part(run.gates[gate, statistic], outcome) for run in runs}
    sampled = [run for run in runs if run.gates[gate, statistic]["completions"]]
    used = [run for run in sampled if run.included]
    (k, n), (every_k, every_n) = ([sum(parts[run.ref.name][side] for run in some) for side in (0, 1)] for some in (used, sampled))
    windows = {str(run.windows[statistic]) for run in runs}
    words = {"condition": condition, "gate": gate, "outcome": outcome, "statistic": statistic, "included": len(used)}
    words |= {"share": OUTCOMES[outcome].format(gate=gate), "window": windows.pop() if len(windows) == 1 else "windows differ between runs"}
    return finding(
        evidence,
        "gate",
        k / n if n else None,
        words=words,
        k=k,
        n=n,
        sources=evidence.sources((run.place.completions, run.log.attempt) for run in used),
        seeds=tuple(_seed(run, *parts[run.ref.name]) for run in runs),
        with_all=every_k / every_n if len(sampled) > len(used) and every_n else None,
    )


def _part(counts: Mapping[str, int], outcome: str) -> tuple[int, int]:
    """k of n: `reach` of all completions, the others of those that reached the gate."""
    reached = counts["pass"] + counts["fail"] + counts["unknown"]
    return (reached, counts["completions"]) if outcome == "reach" else (counts[outcome], reached)


def _seed(run: RunEvidence, k: int, n: int) -> SeedValue:
    why = run.why_not if not run.included else "" if n else "no completion reached the gate in the window"
    return SeedValue(run=run.ref.name, seed=run.ref.seed, value=k / n if n else None, included=run.included and n > 0, why=why)


def _attempts(evidence: Evidence, subject: str, runs: Sequence[RunEvidence]) -> Finding:
    """Finished attempts of all attempts, from the ledger as it is now; of runs that were only read, finished ones of all logs."""
    every = [attempt.state for run in runs for attempt in run.attempts]
    states = [state for state in every if state != "unknown"]
    unknown, logs = len(every) - len(states), bool(runs) and all(run.only_read for run in runs)
    words = {
        "subject": subject,
        "counted": "imported runs, each log once" if logs else "attempts",
        "window": "the newest reading of each log" if logs else "all attempts in the ledger",
        "left_out": f"; {unknown} whose end is unknown are left out" if unknown else "",
        "reason": "of no attempt is it known whether it finished" if every else "no attempt is in the ledger",
    }
    sources = evidence.sources((run.place.attempts, None) for run in runs if run.attempts)
    return _share(evidence, "attempts", states.count("finished"), len(states), words=words, sources=sources)


def _included(evidence: Evidence, subject: str, runs: Sequence[RunEvidence]) -> Finding:
    count = _count(evidence, "included", [(run, run.included, run.why_not) for run in runs], subject=subject)
    seeds = tuple(seed.model_copy(update={"included": seed.value == 1.0}) for seed in count.seeds)
    with_all = None if count.k == count.n else float(len(runs))
    return count.model_copy(update={"seeds": seeds, "with_all": with_all, "value": count.value or 0.0, "reason": ""})


def question_findings(evidence: Evidence) -> Iterator[Finding]:
    """Findings of the sections that questions ask for."""
    asked, conditions = set(evidence.card.asked), {card.name: evidence.runs_of(card.name) for card in evidence.card.conditions}
    subjects = {**conditions, "experiment": evidence.runs}
    detections = {run.ref.name: {own.detector: own for own in run.health.detections} if run.health else {} for run in evidence.runs}
    for kind in dict.fromkeys(kind for run in evidence.runs for kind in detections[run.ref.name]):
        if "anomalies" in asked or kind in TABLED or ("signal" in asked and kind in SIGNAL):
            yield from (_onset(evidence, run, kind, detections[run.ref.name].get(kind)) for run in evidence.runs)
            for condition, runs in conditions.items():
                looked = [(run, own) for run in runs if (own := detections[run.ref.name].get(kind)) and own.state == "looked"]
                counts = [(run, bool(_warnings(own)), "") for run, own in looked]
                yield _count(evidence, "detected", counts, subject=condition, detector=kind)
    for subject, runs in subjects.items():
        if "anomalies" in asked:
            screened = [(run, list(detections[run.ref.name].values())) for run in runs]
            counts = [
                (run, any(signal.severity != "info" for own in every for signal in own.signals), "")
                for run, every in screened
                if any(own.state == "looked" for own in every)
            ]
            yield _count(evidence, "warned", counts, subject=subject)
    for subject, runs in subjects.items():
        if "completion" in asked:
            done = [(run, run.health.steps_done if run.health else None) for run in runs]
            counts = [(run, bool(steps and steps >= run.ref.target_steps), "") for run, steps in done]
            yield _count(evidence, "complete", counts, subject=subject)


def _count(evidence: Evidence, kind: str, counts: Sequence[tuple[RunEvidence, bool, str]], **words: str) -> Finding:
    return runs_finding(evidence, kind, counts, words, evidence.healths([run for run, _, _ in counts]))


def _warnings(detection: Detection) -> list[Signal]:
    """Signals that are more than information. Of collapse all of them: a null control's is expected, and a collapse all the same."""
    return [signal for signal in detection.signals if signal.severity != "info" or signal.detector == "collapse"]


def _onset(evidence: Evidence, run: RunEvidence, kind: str, detection: Detection | None) -> Finding:
    warnings = _warnings(detection) if detection else []
    lasting = [signal for signal in warnings if signal.evidence.get("class") == "persistent"]
    steps = [signal.onset for signal in lasting or warnings if signal.onset is not None]
    if detection is None:
        why = "the run was not screened by it"
    elif detection.state != "looked":
        why = f"{detection.state.replace('_', ' ')}: {detection.reason}"
    else:
        why = "what it found has no first step" if warnings else "it looked and found nothing to warn about"
    words = {"run": run.ref.name, "detector": kind, "reason": why}
    return finding(evidence, "onset", float(min(steps)) if steps else None, words=words, sources=evidence.healths([run]))
