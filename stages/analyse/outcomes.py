"""Findings of stop rules and expectations: what each rule did in each run, and which expectations were met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stages.analyse.evidence import Evidence, RunEvidence, meaning
from stages.analyse.findings import count_of_runs, finding
from stages.contracts.expressions import comparisons, text
from stages.contracts.finding import Expected, Finding, Ruled, RunScore
from stages.contracts.stops import Expectation, StopRule
from stages.rules import Firing, Watch, rule_text, stretch

_REPLAYED = "the stop rules evaluated on the recorded histor"


def expected(evidence: Evidence) -> Iterator[tuple[Expected, list[Finding]]]:
    """For each expectation and condition that it is about: its score, and the findings that hold the score's numbers."""
    for card in evidence.card.expectations:
        for condition in card.conditions:
            runs = evidence.runs_of(condition)
            says = f"Runs in which {card.metric} is {card.direction} {card.bound:g} at {card.place}, of {len(runs)}; {condition}"
            method = "counted; left-out runs count too, those that did not get there as not met"
            answers = [(run, run.answers[card.name]) for run in runs]
            counts = [(run, answer.state == "met", f"{answer.state.replace('_', ' ')}: {answer.why}") for run, answer in answers]
            count = count_of_runs(f"{condition}/expect.{card.name}/met", says, method, counts, evidence.histories(runs))
            values = [_expected_value(card, evidence, run) for run in runs]
            scores = tuple(
                RunScore(run=run.ref.name, state=answer.state, finding=value.id, window=answer.window, why=answer.why)
                for (run, answer), value in zip(answers, values, strict=True)
            )
            own: dict[str, Any] = {name: getattr(card, name) for name in ("metric", "place", "direction", "bound")}
            score = Expected(expectation=card.name, condition=condition, finding=count.id, runs=scores, **own)
            yield score, [count, *values]


def _expected_value(card: Expectation, evidence: Evidence, run: RunEvidence) -> Finding:
    metric, answer = meaning(card.metric), run.answers[card.name]
    return finding(
        f"{run.ref.name}/{card.metric}/{card.statistic}",
        f"{metric.says}; mean over the tenth of the run that ends at {card.place}; run {run.ref.name}",
        unit=metric.unit,
        value=answer.value,
        reason=answer.why,
        method="mean over the logged steps of one run",
        window=answer.window,
        sources=evidence.histories([run]),
    )


def ruled(evidence: Evidence) -> Iterator[tuple[Ruled, list[Finding]]]:
    """What each rule did in each run, with the findings that hold its numbers."""
    for run in evidence.runs:
        if run.watch is not None:
            yield from [_ruled(evidence, run, run.watch, rule) for rule in run.watch.stop.rules]


def stopped_counts(evidence: Evidence, results: Sequence[Ruled]) -> Iterator[Finding]:
    """In how many runs of a condition a rule stops the run, or would have: of rules that stop any."""
    method = f"{_REPLAYED}ies; runs that were trained without the rule count as if it had been there"
    for condition, rule in dict.fromkeys((result.condition, result.rule) for result in results if result.stop):
        runs = evidence.runs_of(condition)
        states = {result.run: result.state for result in results if result.stop and result.rule == rule}
        counts = [(run, run.ref.name in states, states.get(run.ref.name, "").replace("_", " ")) for run in runs]
        says = f"Runs that {rule} stops before their end, of {len(runs)}; {condition}"
        yield count_of_runs(f"{condition}/{rule}/stopped", says, method, counts, evidence.histories(runs))


def _ruled(evidence: Evidence, run: RunEvidence, watch: Watch, rule: StopRule) -> tuple[Ruled, list[Finding]]:
    result: dict[str, Any] = {"run": run.ref.name, "condition": run.ref.condition, "rule": rule.id, "says": rule_text(rule)}
    firings = [firing for firing in watch.firings if firing.rule == rule.id]
    if not firings:
        result |= {"state": "quiet"}
        if missing := sorted({leaf.metric for leaf in comparisons(rule.when)} - watch.measured):
            why = f"{', '.join(missing)}: no number was logged" if run.last_step else "nothing was logged"
            result |= {"state": "unknown", "why": why}
        elif watch.stopped:
            result |= {"why": f"the run ended at step {watch.stopped.step} by {watch.stopped.rule}"}
        elif run.last_step < rule.after:
            result |= {"why": f"the log ends at step {run.last_step}, before the rule looks"}
        return Ruled.model_validate(result), []
    findings: list[Finding] = []

    def number(firing: Firing, statistic: str, says: str, value: float, unit: str = "steps", last: int | None = None) -> str:
        """Id of a finding about the rule in this run. `last`: of the steps that it covers, the firing's own otherwise."""
        id_, says = f"{run.ref.name}/{rule.id}/{statistic}", f"{says}; run {run.ref.name}"
        window, sources = stretch(firing.first, firing.step) if last is None else f"steps {firing.step}-{last}", evidence.histories([run])
        findings.append(finding(id_, says, unit=unit, value=float(value), method=f"{_REPLAYED}y", window=window, sources=sources))
        return id_

    first, held = firings[0], [firing for firing in firings if firing.held_back]
    unit = meaning(first.metric).unit + (" per step" if first.quantity.startswith("slope") else "")
    result |= {"state": "held_back"}
    result |= {"first": number(first, "first-step", f"First step at which {rule.id} held ({result['says']})", first.step)}
    result |= {"value": number(first, "value", f"What {rule.id} measured when it first held: {first.quantity}", first.value, unit)}
    if held:
        says = f"Steps at which {rule.id} held ({result['says']}) and a green light kept the run going"
        result |= {"held": number(held[0], "held-back", says, len(held), last=held[-1].step)}
        lights = {light.id: text(light.when) for light in watch.stop.green_lights}
        result |= {"lights": tuple(dict.fromkeys(lights[firing.held_back or ""] for firing in held))}
    stopped, live = watch.stopped, run.health.stopped if run.health else None
    if stopped and stopped.rule == rule.id:
        result |= {"stop": number(stopped, "stop-step", f"Step at which {rule.id} stops the run ({result['says']})", stopped.step)}
        agree = live is not None and (live.rule, live.step) == (rule.id, stopped.step)
        result |= {"state": "stopped" if agree else "would_have_stopped"}
        if live is not None and not agree:  # only a history that is not the one that was trained can make the two differ
            own = f"the trainer stopped the run by {live.rule} at step {live.step}"
            result |= {"why": f"{own}, its history says {rule.id} at step {stopped.step}"}
    return Ruled.model_validate(result), findings
