"""Stop rules once more, on the recorded histories: the evaluator that ran while the run trained must say the same again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stages.analyse.evidence import Evidence, RunEvidence, meaning
from stages.analyse.replay import Fired
from stages.contracts.expressions import comparisons, text
from stages.contracts.finding import Finding, Ruled, SeedValue
from stages.contracts.rule_card import RuleCard, StopCard
from stages.rules import Firing, rule_text


def ruled(stop: StopCard, evidence: Evidence, run: RunEvidence) -> Iterator[tuple[Ruled, list[Finding]]]:
    """What each rule did in the run, with the findings that hold its numbers."""
    for rule in stop.rules:
        yield _ruled(stop, rule, evidence, run)


def _ruled(stop: StopCard, rule: RuleCard, evidence: Evidence, run: RunEvidence) -> tuple[Ruled, list[Finding]]:
    fired, stopped = run.replayed.fired.get(rule.id), run.replayed.stopped
    said, about = rule_text(rule), {"run": run.ref.name, "condition": run.ref.condition, "rule": rule.id}
    if fired is None:
        missing = sorted({leaf.metric for leaf in comparisons(rule.when)} - run.replayed.known)
        state, why = ("unknown", _unmeasured(run, missing)) if missing else ("quiet", _ended(run, rule))
        return Ruled.model_validate({**about, "says": said, "state": state, "why": why}), []
    lights = {light.id: text(light.when) for light in stop.green_lights}
    findings = [_first(evidence, run, said, fired.first), _value(evidence, run, fired.first)]
    held = _held(evidence, run, said, fired)
    if held:
        findings.append(held)
    if stopped is not None and stopped.rule != rule.id:
        stopped = None
    if stopped:
        findings.append(_stop(evidence, run, said, stopped))
    return (
        Ruled.model_validate(
            {
                **about,
                "says": said,
                "state": ("stopped" if _was_stopped(run, stopped) else "would_have_stopped") if stopped else "held_back",
                "why": _disagreement(run, stopped),
                "first": findings[0].id,
                "value": findings[1].id,
                "held": held.id if held else None,
                "lights": tuple(dict.fromkeys(lights[light] for light in fired.lights)),
                "stop": findings[-1].id if stopped else None,
            }
        ),
        findings,
    )


def stopped_count(evidence: Evidence, condition: str, rule: str, results: Sequence[Ruled]) -> Finding:
    """In how many runs of a condition a rule stops the run, or would have."""
    runs = evidence.of(condition)
    fired = {result.run: result.state for result in results if result.stop is not None}
    return Finding(
        id=f"{condition}/{rule}/stopped",
        says=f"Runs that {rule} stops before their end, of {len(runs)}; {condition}",
        subject=condition,
        metric=rule,
        statistic="stopped",
        unit="runs",
        value=float(len(fired)),
        method="the stop rules evaluated on the recorded histories; runs that were trained without the rule count as if it had been there",
        n=len(runs),
        k=len(fired),
        seeds=tuple(
            SeedValue(
                run=run.ref.name,
                seed=run.ref.seed,
                value=float(run.ref.name in fired),
                included=True,
                why=fired.get(run.ref.name, "").replace("_", " "),
            )
            for run in runs
        ),
        sources=tuple(evidence.source(run.trace.path, run.trace.attempt) for run in runs if run.trace.exists),
    )


def _was_stopped(run: RunEvidence, firing: Firing) -> bool:
    said = run.health.stopped if run.health else None
    return said is not None and (said.rule, said.step) == (firing.rule, firing.step)


def _disagreement(run: RunEvidence, firing: Firing | None) -> str:
    """Only a history that is not the one that was trained can make the trainer's answer and this one differ."""
    said = run.health.stopped if run.health else None
    if firing is None or said is None or _was_stopped(run, firing):
        return ""
    return f"the trainer stopped the run by {said.rule} at step {said.step}, its history says {firing.rule} at step {firing.step}"


def _unmeasured(run: RunEvidence, missing: list[str]) -> str:
    return f"{', '.join(missing)}: no number was logged" if run.trace.logged else "nothing was logged"


def _ended(run: RunEvidence, rule: RuleCard) -> str:
    stopped = run.replayed.stopped
    if stopped:
        return f"the run ended at step {stopped.step} by {stopped.rule}"
    return f"the log ends at step {run.trace.last_step}, before the rule looks" if run.trace.last_step < rule.after else ""


def _finding(evidence: Evidence, run: RunEvidence, firing: Firing, statistic: str, says: str, value: float, unit: str) -> Finding:
    return Finding(
        id=f"{run.ref.name}/{firing.rule}/{statistic}",
        says=f"{says}; run {run.ref.name}",
        subject=run.ref.name,
        metric=firing.rule,
        statistic=statistic,
        unit=unit,
        value=value,
        method="the stop rules evaluated on the recorded history",
        window=f"steps {firing.first}-{firing.step}" if firing.first != firing.step else f"step {firing.step}",
        sources=(evidence.source(run.trace.path, run.trace.attempt),),
    )


def _first(evidence: Evidence, run: RunEvidence, said: str, firing: Firing) -> Finding:
    return _finding(evidence, run, firing, "first-step", f"First step at which {firing.rule} held ({said})", float(firing.step), "steps")


def _value(evidence: Evidence, run: RunEvidence, firing: Firing) -> Finding:
    says = f"What {firing.rule} measured when it first held: {firing.quantity}"
    unit = meaning(firing.metric).unit
    return _finding(evidence, run, firing, "value", says, firing.value, f"{unit} per step" if firing.quantity.startswith("slope") else unit)


def _held(evidence: Evidence, run: RunEvidence, said: str, fired: Fired) -> Finding | None:
    """None when no green light ever held the rule back."""
    first, last = fired.held_first, fired.held_last
    if first is None or last is None:
        return None
    says = f"Steps at which {first.rule} held ({said}) and a green light kept the run going"
    found = _finding(evidence, run, first, "held-back", says, float(fired.held), "steps")
    return found.model_copy(update={"window": f"steps {first.step}-{last.step}"})


def _stop(evidence: Evidence, run: RunEvidence, said: str, firing: Firing) -> Finding:
    return _finding(evidence, run, firing, "stop-step", f"Step at which {firing.rule} stops the run ({said})", float(firing.step), "steps")
