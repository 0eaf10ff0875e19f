"""Findings of stop rules and expectations: what each rule did in each run, and which expectations were met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stages.analyse.evidence import Evidence, RunEvidence, meaning
from stages.analyse.findings import count_of_runs, finding
from stages.contracts.expressions import comparisons
from stages.contracts.expressions import text as condition_text
from stages.contracts.finding import Expected, Finding, Ruled, RunScore
from stages.contracts.stops import Expectation, StopRule
from stages.rules import Answer, Firing, rule_text, stretch

_REPLAYED = "the stop rules evaluated on the recorded histor"


def expected(evidence: Evidence) -> Iterator[tuple[Expected, list[Finding]]]:
    """For each expectation and condition that it is about: its score, and the findings that hold the score's numbers."""
    for card in evidence.card.expectations:
        for condition in card.conditions:
            runs = evidence.of(condition)
            answers = [run.rules.answers[card.name] for run in runs]
            values = [_expected_value(card, evidence, run, one) for run, one in zip(runs, answers, strict=True)]
            says = f"Runs in which {card.metric} is {card.direction} {card.bound:g} at {card.place}, of {len(runs)}; {condition}"
            method = "counted; left-out runs count too, those that did not get there as not met"
            counts = [
                (run, one.state == "met", f"{one.state.replace('_', ' ')}: {one.why}") for run, one in zip(runs, answers, strict=True)
            ]
            count = count_of_runs(f"{condition}/expect.{card.name}/met", says, method, counts, evidence.histories(runs))
            scores = tuple(
                RunScore(run=run.ref.name, state=one.state, finding=value.id, window=one.window, why=one.why)
                for run, one, value in zip(runs, answers, values, strict=True)
            )
            score = Expected(
                expectation=card.name,
                condition=condition,
                metric=card.metric,
                place=card.place,
                direction=card.direction,
                bound=card.bound,
                finding=count.id,
                runs=scores,
            )
            yield score, [count, *values]


def _expected_value(card: Expectation, evidence: Evidence, run: RunEvidence, one: Answer) -> Finding:
    about = meaning(card.metric)
    says = f"{about.says}; mean over the tenth of the run that ends at {card.place}; run {run.ref.name}"
    return finding(
        f"{run.ref.name}/{card.metric}/{card.statistic}",
        says,
        unit=about.unit,
        value=one.value,
        reason=one.why,
        method="mean over the logged steps of one run",
        window=one.window,
        sources=evidence.histories([run]),
    )


def ruled(evidence: Evidence) -> Iterator[tuple[Ruled, list[Finding]]]:
    """What each rule did in each run, with the findings that hold its numbers."""
    for run in evidence.runs:
        for rule in run.rules.stop.rules if run.rules.stop else ():
            yield _ruled(evidence, run, rule)


def stopped_counts(evidence: Evidence, results: Sequence[Ruled]) -> Iterator[Finding]:
    """In how many runs of a condition a rule stops the run, or would have: of rules that stop any."""
    method = f"{_REPLAYED}ies; runs that were trained without the rule count as if it had been there"
    for condition, rule in dict.fromkeys((result.condition, result.rule) for result in results if result.stop):
        runs = evidence.of(condition)
        states = {result.run: result.state for result in results if result.stop and result.rule == rule}
        counts = [(run, run.ref.name in states, states.get(run.ref.name, "").replace("_", " ")) for run in runs]
        says = f"Runs that {rule} stops before their end, of {len(runs)}; {condition}"
        yield count_of_runs(f"{condition}/{rule}/stopped", says, method, counts, evidence.histories(runs))


def _ruled(evidence: Evidence, run: RunEvidence, rule: StopRule) -> tuple[Ruled, list[Finding]]:
    replayed, text = run.rules, rule_text(rule)
    about = {"run": run.ref.name, "condition": run.ref.condition, "rule": rule.id, "says": text}
    firings = replayed.firings.get(rule.id, [])
    if not firings:
        missing = sorted({leaf.metric for leaf in comparisons(rule.when)} - replayed.known)
        if missing:
            why = f"{', '.join(missing)}: no number was logged" if run.logged else "nothing was logged"
            return Ruled.model_validate({**about, "state": "unknown", "why": why}), []
        return Ruled.model_validate({**about, "state": "quiet", "why": _ended(run, rule)}), []
    first, held = firings[0], [firing for firing in firings if firing.held_back]
    unit = meaning(first.metric).unit + (" per step" if first.quantity.startswith("slope") else "")
    value_says = f"What {rule.id} measured when it first held: {first.quantity}"
    findings = [
        _finding(evidence, run, first, "first-step", f"First step at which {rule.id} held ({text})", float(first.step), "steps"),
        _finding(evidence, run, first, "value", value_says, first.value, unit),
    ]
    result: dict[str, Any] = {**about, "state": "held_back", "first": findings[0].id, "value": findings[1].id}
    if held:
        says = f"Steps at which {rule.id} held ({text}) and a green light kept the run going"
        count = _finding(evidence, run, held[0], "held-back", says, float(len(held)), "steps")
        findings.append(count.model_copy(update={"window": f"steps {held[0].step}-{held[-1].step}"}))
        lights = {light.id: condition_text(light.when) for light in (replayed.stop.green_lights if replayed.stop else ())}
        result |= {"held": count.id, "lights": tuple(dict.fromkeys(lights[firing.held_back or ""] for firing in held))}
    stopped = replayed.stopped
    if stopped and stopped.rule == rule.id:
        says = f"Step at which {rule.id} stops the run ({text})"
        findings.append(_finding(evidence, run, stopped, "stop-step", says, float(stopped.step), "steps"))
        live = run.health.stopped if run.health else None
        agree = live is not None and (live.rule, live.step) == (rule.id, stopped.step)
        result |= {"state": "stopped" if agree else "would_have_stopped", "stop": findings[-1].id}
        if live is not None and not agree:  # only a history that is not the one that was trained can make the two differ
            result["why"] = (
                f"the trainer stopped the run by {live.rule} at step {live.step}, its history says {rule.id} at step {stopped.step}"
            )
    return Ruled.model_validate(result), findings


def _ended(run: RunEvidence, rule: StopRule) -> str:
    if run.rules.stopped:
        return f"the run ended at step {run.rules.stopped.step} by {run.rules.stopped.rule}"
    return f"the log ends at step {run.last_step}, before the rule looks" if run.last_step < rule.after else ""


def _finding(evidence: Evidence, run: RunEvidence, firing: Firing, statistic: str, says: str, value: float, unit: str) -> Finding:
    id_, window = f"{run.ref.name}/{firing.rule}/{statistic}", stretch(firing.first, firing.step)
    says, sources = f"{says}; run {run.ref.name}", evidence.histories([run])
    return finding(id_, says, unit=unit, value=value, method=f"{_REPLAYED}y", window=window, sources=sources)
