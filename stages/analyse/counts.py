"""Findings that count: gates reached and passed, attempts, steps done, runs included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stages.analyse.bounded import bounded
from stages.analyse.evidence import Evidence, RunEvidence
from stages.analyse.groups import only_gate
from stages.analyse.statistics import proportion
from stages.analyse.traces import GateCounts
from stages.contracts.finding import Finding, SeedValue, Source
from stages.contracts.preflight_card import PreflightResult

OUTCOMES = ("reach", "pass", "fail", "unknown")
_SAYS = {
    "reach": "Share of completions that reached the gate {gate}",
    "pass": "Share of the completions that reached the gate {gate} and passed it",
    "fail": "Share of the completions that reached the gate {gate} and failed it",
    "unknown": "Share of the completions that reached the gate {gate} without a known answer",
}


def count_findings(evidence: Evidence, level: float) -> Iterator[Finding]:
    """All counting findings, condition by condition."""
    for condition in evidence.conditions:
        yield from _preflight(evidence, condition.name, level)
        for gate in condition.gates:
            for statistic in ("initial", "final"):
                yield from _training(evidence, condition.name, gate, statistic)
        yield _attempts(evidence, condition.name, evidence.of(condition.name), level)
        yield _included(evidence, condition.name, evidence.of(condition.name))
    yield _attempts(evidence, "experiment", list(evidence.runs), level)
    yield _included(evidence, "experiment", list(evidence.runs))
    for run in evidence.runs:
        yield _steps(evidence, run)


def _share(
    id_: str,
    says: str,
    k: int,
    n: int,
    level: float | None,
    *,
    sources: tuple[Source, ...],
    window: str,
    method: str,
    reason: str,
    seeds: tuple[SeedValue, ...] = (),
    with_all: float | None = None,
    without_gate: Mapping[str, float] | None = None,
) -> Finding:
    """k of n; with Wilson's interval when a level is given."""
    return bounded(
        id_,
        says,
        unit="share",
        value=k / n if n else None,
        reason=reason,
        interval=proportion(k, n, level) if level is not None and n else None,
        level=level,
        method=method,
        window=window,
        sources=sources,
        k=k,
        n=n,
        seeds=seeds,
        with_all=with_all,
        without_gate=without_gate,
    )


def _preflight(evidence: Evidence, condition: str, level: float) -> Iterator[Finding]:
    """Shares on completions of the untrained model. Completions of one prompt are not quite independent; the method says so."""
    results = evidence.preflight.results if evidence.preflight else ()
    found = next((result for result in results if result.condition == condition), None)
    if found is None:
        return
    sources = (evidence.source(evidence.folder.preflight),)

    def share(metric: str, says: str, k: int, n: int, what: str) -> Finding:
        method = f"Wilson interval over {what}, which share prompts"
        window = "preflight, untrained model"
        id_ = f"{condition}/{metric}/preflight"
        return _share(
            id_, f"{says}; preflight of {condition}", k, n, level, sources=sources, window=window, method=method, reason=f"no {what}"
        )

    for gate in found.funnel:
        parts = dict(zip(OUTCOMES, (gate.reached, gate.passed, gate.failed, gate.unknown), strict=True))
        for outcome, k in parts.items():
            n = found.completions if outcome == "reach" else gate.reached
            yield share(f"gate.{gate.gate}.{outcome}", _SAYS[outcome].format(gate=gate.gate), k, n, "completions")
    yield share("zero_signal_share", "Share of groups whose known rewards are all equal", found.zero_signal_groups, found.groups, "groups")
    yield share("truncated", "Share of completions cut at max_completion_length", found.truncated, found.completions, "completions")
    yield share("unknown_share", "Share of completions whose reward is unknown", found.unknown, found.completions, "completions")
    yield _reward(found, sources)


def _reward(found: PreflightResult, sources: tuple[Source, ...]) -> Finding:
    return Finding(
        id=f"{found.condition}/reward/preflight",
        says=f"Mean reward of completions of the untrained model; preflight of {found.condition}",
        subject=found.condition,
        metric="reward",
        statistic="preflight",
        unit="reward",
        value=found.reward_mean,
        reason="" if found.reward_mean is not None else "no completion has a known reward",
        method="mean over completions",
        n=found.completions - found.unknown,
        window="preflight, untrained model",
        sources=sources,
    )


@dataclass(frozen=True)
class _Counted:
    """What a gate said in one window of a run."""

    run: RunEvidence
    counts: GateCounts

    def share(self, outcome: str) -> tuple[int, int]:
        """k of n: `reach` of all completions, the others of those that reached the gate."""
        said = self.counts
        parts = dict(zip(OUTCOMES, (said.reached, said.passed, said.failed, said.unknown), strict=True))
        return parts[outcome], said.completions if outcome == "reach" else said.reached

    def seed(self, outcome: str) -> SeedValue:
        k, n = self.share(outcome)
        why = self.run.why_not if not self.run.included else "" if n else "no completion reached the gate in the window"
        included = self.run.included and n > 0
        return SeedValue(run=self.run.ref.name, seed=self.run.ref.seed, value=k / n if n else None, included=included, why=why)


def _training(evidence: Evidence, condition: str, gate: str, statistic: str) -> Iterator[Finding]:
    """A gate in the first or last window of training, pooled over the included runs."""
    counts = [_Counted(run, run.trace.gates[gate, statistic]) for run in evidence.of(condition)]
    known = [found for found in counts if found.counts.completions]
    used = [found for found in known if found.run.included]
    gates = sorted({name for found in known if (name := only_gate(found.run)) is not None})
    windows = sorted({str(evidence.window(found.run.ref, statistic)) for found in counts})
    for outcome in OUTCOMES:
        yield _share(
            f"{condition}/gate.{gate}.{outcome}/{statistic}",
            f"{_SAYS[outcome].format(gate=gate)}; {statistic} window of training; {condition}",
            sum(found.share(outcome)[0] for found in used),
            sum(found.share(outcome)[1] for found in used),
            None,
            sources=tuple(evidence.source(found.run.place.completions, found.run.trace.attempt) for found in used),
            window=windows[0] if len(windows) == 1 else "windows differ between runs",
            method=f"completions of {len(used)} included runs pooled; no interval: completions of one run are not independent",
            reason="no included run has completions that reached the gate in the window",
            seeds=tuple(found.seed(outcome) for found in counts),
            with_all=_pooled(known, outcome) if len(known) > len(used) else None,
            without_gate={
                name: share
                for name in gates
                if (share := _pooled([one for one in known if one.run.included or only_gate(one.run) == name], outcome)) is not None
            },
        )


def _pooled(counts: list[_Counted], outcome: str) -> float | None:
    parts = [found.share(outcome) for found in counts]
    n = sum(n for _, n in parts)
    return sum(k for k, _ in parts) / n if n else None


def _attempts(evidence: Evidence, subject: str, runs: list[RunEvidence], level: float) -> Finding:
    """Finished attempts of all attempts, from the ledger as it is now; of runs that were only read, finished ones of all logs."""
    every = [attempt.state for run in runs for attempt in evidence.attempts[run.ref.name]]
    states = [state for state in every if state != "unknown"]
    open_ends = len(every) - len(states)
    sources = tuple(evidence.source(run.place.attempts) for run in runs if evidence.attempts[run.ref.name])
    counted = "imported runs, each log once" if runs and all(run.only_read for run in runs) else "attempts"
    return _share(
        f"{subject}/attempts/finished",
        f"Share of {counted} that finished; {subject}",
        states.count("finished"),
        len(states),
        level,
        sources=sources,
        window="all attempts in the ledger" if counted == "attempts" else "the newest reading of each log",
        method=f"Wilson interval over {counted}" + (f"; {open_ends} whose end is unknown are left out" if open_ends else ""),
        reason="of no attempt is it known whether it finished" if every else "no attempt is in the ledger",
    )


def _included(evidence: Evidence, subject: str, runs: list[RunEvidence]) -> Finding:
    k = sum(run.included for run in runs)
    alone = Counter(gate for run in runs if (gate := only_gate(run)) is not None)
    return Finding(
        id=f"{subject}/runs/included",
        says=f"Runs that pass the health gates, of {len(runs)}; {subject}",
        subject=subject,
        metric="runs",
        statistic="included",
        unit="runs",
        value=float(k),
        method="counted",
        n=len(runs),
        k=k,
        seeds=tuple(
            SeedValue(run=run.ref.name, seed=run.ref.seed, value=float(run.included), included=run.included, why=run.why_not)
            for run in runs
        ),
        sources=tuple(evidence.source(run.place.health) for run in runs if run.health),
        with_all=float(len(runs)) if k < len(runs) else None,
        without_gate={gate: float(k + alone[gate]) for gate in sorted(alone)},
    )


def _steps(evidence: Evidence, run: RunEvidence) -> Finding:
    done = run.health.steps_done if run.health else None
    return Finding(
        id=f"{run.ref.name}/steps/done",
        says=f"Optimizer steps done, of {run.ref.target_steps}; run {run.ref.name}",
        subject=run.ref.name,
        metric="steps",
        statistic="done",
        unit="steps",
        value=None if done is None else float(done),
        reason="" if done is not None else f"unknown (log ends at {run.trace.last_step})",
        method="last logged step" if run.imported is not None and run.imported.steps == "unknown" else "the trainer's final state",
        k=done,
        n=run.ref.target_steps,
        sources=(evidence.source(run.place.health),) if run.health else (),
    )
