"""Findings that only questions ask for: when a detector's signals begin, how many runs have any, how many runs did all their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stages.analyse.evidence import Evidence, RunEvidence
from stages.contracts.finding import Finding, SeedValue
from stages.contracts.health import Detection, Signal

SIGNAL = ("collapse", "zero_signal")
"""Detectors that say whether groups keep a reward signal."""


def answers(asked: Iterable[str], evidence: Evidence) -> Iterator[Finding]:
    """The findings of the sections that are asked for."""
    wanted = set(asked)
    if "anomalies" in wanted:
        yield from _detectors(evidence, None)
        yield from (_any(evidence, subject, runs) for subject, runs in _subjects(evidence))
    elif "signal" in wanted:
        yield from _detectors(evidence, SIGNAL)
    if "completion" in wanted:
        yield from (_complete(evidence, subject, runs) for subject, runs in _subjects(evidence))


def _subjects(evidence: Evidence) -> Iterator[tuple[str, list[RunEvidence]]]:
    yield from ((condition.name, evidence.of(condition.name)) for condition in evidence.conditions)
    yield "experiment", list(evidence.runs)


def _detectors(evidence: Evidence, only: tuple[str, ...] | None) -> Iterator[Finding]:
    seen = dict.fromkeys(detection.detector for run in evidence.runs for detection in _of(run))
    for kind in seen:
        if only is None or kind in only:
            yield from (_onset(evidence, run, kind) for run in evidence.runs)
            yield from (_runs(evidence, condition.name, kind) for condition in evidence.conditions)


def _of(run: RunEvidence) -> tuple[Detection, ...]:
    return run.health.detections if run.health else ()


def _detection(run: RunEvidence, kind: str) -> Detection | None:
    return next((found for found in _of(run) if found.detector == kind), None)


def _warnings(found: Detection | None) -> list[Signal]:
    """Signals that are more than information; of collapse all of them: a null control's is expected, and a collapse all the same."""
    signals = found.signals if found else ()
    return [signal for signal in signals if signal.severity != "info" or signal.detector == "collapse"]


def _onset(evidence: Evidence, run: RunEvidence, kind: str) -> Finding:
    found = _detection(run, kind)
    steps = [signal.onset for signal in _warnings(found) if signal.onset is not None]
    if found is None:
        why = "the run was not screened by it"
    elif found.state != "looked":
        why = f"{found.state.replace('_', ' ')}: {found.reason}"
    else:
        why = "what it found has no first step" if _warnings(found) else "it looked and found nothing to warn about"
    return Finding(
        id=f"{run.ref.name}/detector.{kind}/onset",
        says=f"First step of what the detector {kind} found; run {run.ref.name}",
        subject=run.ref.name,
        metric=f"detector.{kind}",
        statistic="onset",
        unit="steps",
        value=float(min(steps)) if steps else None,
        reason="" if steps else why,
        method="the earliest onset among its signals, mere information left out",
        sources=(evidence.source(run.place.health),) if run.health else (),
    )


def _runs(evidence: Evidence, condition: str, kind: str) -> Finding:
    runs = evidence.of(condition)
    looked = [run for run in runs if (found := _detection(run, kind)) is not None and found.state == "looked"]
    warned = {run.ref.name for run in looked if _warnings(_detection(run, kind))}
    says = f"Runs in which the detector {kind} found something, of those that it looked at; {condition}"
    return _count(evidence, f"{condition}/detector.{kind}/runs", says, looked, warned, f"the detector {kind} looked at no run")


def _any(evidence: Evidence, subject: str, runs: list[RunEvidence]) -> Finding:
    looked = [run for run in runs if any(found.state == "looked" for found in _of(run))]
    warned = {run.ref.name for run in looked if any(signal.severity != "info" for found in _of(run) for signal in found.signals)}
    return _count(
        evidence, f"{subject}/detectors/runs", f"Runs about which any detector warns; {subject}", looked, warned, "no run was screened"
    )


def _complete(evidence: Evidence, subject: str, runs: list[RunEvidence]) -> Finding:
    known = [run for run in runs if run.health is not None and run.health.steps_done is not None]
    done = {run.ref.name for run in known if run.health and (run.health.steps_done or 0) >= run.ref.target_steps}
    return _count(
        evidence,
        f"{subject}/runs/complete",
        f"Runs that did all their steps, of {len(runs)}; {subject}",
        runs,
        done,
        "there is no run",
    )


def _count(evidence: Evidence, id_: str, says: str, runs: list[RunEvidence], counted: set[str], reason: str) -> Finding:
    subject, metric, statistic = id_.split("/")
    return Finding(
        id=id_,
        says=says,
        subject=subject,
        metric=metric,
        statistic=statistic,
        unit="runs",
        value=float(len(counted)) if runs else None,
        reason="" if runs else reason,
        method="counted; excluded runs too",
        k=len(counted),
        n=len(runs),
        seeds=tuple(SeedValue(run=r.ref.name, seed=r.ref.seed, value=float(r.ref.name in counted), included=True) for r in runs),
        sources=tuple(evidence.source(run.place.health) for run in runs if run.health),
    )
