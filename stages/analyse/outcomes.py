"""Findings of stop rules and expectations: what each rule did in each run, and which expectations were met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stages.analyse.evidence import Evidence, RunEvidence, meaning
from stages.analyse.findings import finding, runs_finding
from stages.contracts.expressions import comparisons, text
from stages.contracts.finding import Expected, Finding, Ruled, RunScore
from stages.contracts.stops import Expectation, StopRule
from stages.rules import Firing, Watch, rule_text, stretch


def expected(evidence: Evidence) -> Iterator[tuple[Expected, list[Finding]]]:
    """For each expectation and condition that it is about: its score, and the findings that hold the score's numbers."""
    for card in evidence.card.expectations:
        own: dict[str, Any] = {name: getattr(card, name) for name in ("metric", "place", "direction", "bound")}
        for condition in card.conditions:
            runs = evidence.runs_of(condition)
            answers = [(run, run.answers[card.name]) for run in runs]
            counts = [(run, answer.state == "met", f"{answer.state.replace('_', ' ')}: {answer.why}") for run, answer in answers]
            words = {"subject": condition, "expectation": card.name, **own}
            count = runs_finding(evidence, "met", counts, words, evidence.histories(runs))
            values = [_value(card, evidence, run) for run in runs]
            scores = tuple(
                RunScore(run=run.ref.name, state=answer.state, finding=value.id, window=answer.window, why=answer.why)
                for (run, answer), value in zip(answers, values, strict=True)
            )
            yield Expected(expectation=card.name, condition=condition, finding=count.id, runs=scores, **own), [count, *values]


def _value(card: Expectation, evidence: Evidence, run: RunEvidence) -> Finding:
    metric, answer = meaning(card.metric), run.answers[card.name]
    words = {"run": run.ref.name, "metric": card.metric, "statistic": card.statistic, "unit": metric.unit, "meaning": metric.says}
    words |= {"place": card.place, "window": answer.window, "reason": answer.why}
    return finding(evidence, "expected", answer.value, words=words, sources=evidence.histories([run]))


def ruled(evidence: Evidence) -> Iterator[tuple[Ruled, list[Finding]]]:
    """What each rule did in each run, with the findings that hold its numbers."""
    for run in evidence.runs:
        if run.watch is not None:
            yield from [_ruled(evidence, run, run.watch, rule) for rule in run.watch.stop.rules]


def stopped_counts(evidence: Evidence, results: Sequence[Ruled]) -> Iterator[Finding]:
    """In how many runs of a condition a rule stops the run, or would have: of rules that stop any."""
    for condition, rule in dict.fromkeys((result.condition, result.rule) for result in results if result.stop):
        runs = evidence.runs_of(condition)
        states = {result.run: result.state for result in results if result.stop and result.rule == rule}
        counts = [(run, run.ref.name in states, states.get(run.ref.name, "").replace("_", " ")) for run in runs]
        yield runs_finding(evidence, "stopped", counts, {"subject": condition, "rule": rule}, evidence.histories(runs))


def _ruled(evidence: Evidence, run: RunEvidence, watch: Watch, rule: StopRule) -> tuple[Ruled, list[Finding]]:
    result: dict[str, Any] = {"run": run.ref.name, "condition": run.ref.condition, "rule": rule.id, "says": rule_text(rule)}
    firings = [firing for firing in watch.firings if firing.rule == rule.id]
    if not firings:
        return Ruled.model_validate(result | _quiet(run, watch, rule)), []
    first, held = firings[0], [firing for firing in firings if firing.held_back]
    words = {"run": run.ref.name, "rule": rule.id, "condition": result["says"], "quantity": first.quantity}
    words["unit"] = meaning(first.metric).unit + (" per step" if first.quantity.startswith("slope") else "")

    def number(kind: str, value: float, firing: Firing, last: int | None = None) -> Finding:
        """`last`: of the steps that the number covers, the firing's own otherwise."""
        window = stretch(firing.first, firing.step) if last is None else f"steps {firing.step}-{last}"
        return finding(evidence, kind, float(value), words={**words, "window": window}, sources=evidence.histories([run]))

    numbers = {"first": number("first-step", first.step, first), "value": number("value", first.value, first)}
    result["state"] = "held_back"
    if held:
        numbers["held"] = number("held-back", len(held), held[0], last=held[-1].step)
        lights = {light.id: text(light.when) for light in watch.stop.green_lights}
        result["lights"] = tuple(dict.fromkeys(lights[firing.held_back or ""] for firing in held))
    stopped, live = watch.stopped, run.health.stopped if run.health else None
    if stopped and stopped.rule == rule.id:
        numbers["stop"] = number("stop-step", stopped.step, stopped)
        agree = live is not None and (live.rule, live.step) == (rule.id, stopped.step)
        result["state"] = "stopped" if agree else "would_have_stopped"
        if live is not None and not agree:  # only a history that is not the one that was trained can make the two differ
            own = f"the trainer stopped the run by {live.rule} at step {live.step}"
            result["why"] = f"{own}, its history says {rule.id} at step {stopped.step}"
    return Ruled.model_validate(result | {key: own.id for key, own in numbers.items()}), list(numbers.values())


def _quiet(run: RunEvidence, watch: Watch, rule: StopRule) -> dict[str, str]:
    """State of a rule that never held, and why."""
    if missing := sorted({leaf.metric for leaf in comparisons(rule.when)} - watch.measured):
        return {"state": "unknown", "why": f"{', '.join(missing)}: no number was logged" if run.last_step else "nothing was logged"}
    if watch.stopped:
        return {"state": "quiet", "why": f"the run ended at step {watch.stopped.step} by {watch.stopped.rule}"}
    late = f"the log ends at step {run.last_step}, before the rule looks"
    return {"state": "quiet", "why": late if run.last_step < rule.after else ""}
