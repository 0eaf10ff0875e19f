"""Findings of stop rules and expectations: what each rule did in each run, and which expectations were met.

Rules are evaluated once more, on the recorded history: the evaluator that ran while the run trained must say the same again.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

from stages.analyse.evidence import Evidence, RunEvidence, rule_metrics
from stages.analyse.findings import finding, runs_finding
from stages.analyse.frames import SILENT, Run, window_ending
from stages.contracts.expressions import comparisons, text
from stages.contracts.finding import Expected, Finding, Ruled, RunScore
from stages.contracts.history import GRADIENT_METRICS, SKIPPED
from stages.contracts.stops import Expectation, StopRule, StopRules
from stages.rules import Firing, Row, Watch, above, below, beside, bound_text, bounds_text, rule_text, stretch


def expected(evidence: Evidence) -> Iterator[tuple[Expected, list[Finding]]]:
    """For each expectation and condition that it is about: its score, and the findings that hold the score's numbers."""
    for card in evidence.card.expectations:
        own: dict[str, Any] = {name: getattr(card, name) for name in ("metric", "place", "direction", "bound", "upper")}
        for condition in card.conditions:
            runs = evidence.runs_of(condition)
            scored = [(run, *_score(card, evidence, run)) for run in runs]
            counts = [(run, score.state == "met", f"{score.state.replace('_', ' ')}: {score.why}") for run, score, _ in scored]
            range_text = f"{card.direction} {card.bound:g}" + ("" if card.upper is None else f" and {card.upper:g}")
            words = {"subject": condition, "expectation": card.name, "range": range_text, **own}
            count = runs_finding(evidence, "met", counts, words, evidence.histories(runs))
            scores = tuple(score for _, score, _ in scored)
            numbers = [number for *_, number in scored]
            yield Expected(expectation=card.name, condition=condition, finding=count.id, runs=scores, **own), [count, *numbers]


def _score(card: Expectation, evidence: Evidence, run: RunEvidence) -> tuple[RunScore, Finding]:
    """One run: its mean over the window that ends at the place. not_reached: it ends before, or the metric has no number there."""
    target, log, health = run.ref.target_steps, run.log, run.health
    window = window_ending(card, target, evidence.card.windows)
    at = window.last
    values, value = window.rows(log.values(card.metric)), None
    # a log with a stride reaches a place that lies before its next row; a trainer's own count of steps is believed
    done = max(log.last_step + log.stride - 1 if log.last_step else 0, (health.steps_done or 0) if health else 0)
    state: Literal["met", "missed", "due", "not_reached"] = "not_reached"
    if done >= at and len(values):
        value = statistics.mean(values.tolist())
        inside = (card.above is None or above(value, card.above)) and (card.below is None or below(value, card.below))
        state = "met" if inside else "missed"
        nearest = min((bound for bound in (card.above, card.below) if bound is not None), key=lambda bound: abs(bound - value))
        text = beside(value, nearest, digits=4) if above(value, nearest) or below(value, nearest) else bound_text(nearest)
        why = f"{text} is {'' if inside else 'not '}{bounds_text(card.direction, card.bound, card.upper)}"
    elif health and health.stopped:
        why = f"stopped by {health.stopped.rule} at step {health.stopped.step}"
    elif done < at and run.goes_on:
        state, why = "due", f"due at step {at}"
    elif done < at:
        why = f"the run ends at step {done}" if done else "nothing was logged"
    else:
        why = f"{card.metric} has no value in {window}"
    metric = evidence.meaning(card.metric)
    words = {"run": run.ref.name, "metric": card.metric, "statistic": card.statistic, "unit": metric.unit, "meaning": metric.says}
    words |= {"place": card.place, "window": str(window), "reason": why}
    number = finding(evidence, "expected", value, words=words, sources=evidence.histories([run]))
    due = at if state == "due" else None
    return RunScore(run=run.ref.name, state=state, finding=number.id, window=str(window), why=why, due=due), number


def ruled(evidence: Evidence) -> Iterator[tuple[Ruled, list[Finding]]]:
    """What each rule did in each run, with the findings that hold its numbers."""
    for run in evidence.runs:
        stop = evidence.card.stops.get(run.ref.condition)
        if stop is not None:
            watch = Watch(_in_rows(stop, run.log.stride))
            for step, row in rows(run.log, rule_metrics(stop)):
                watch.see(step, row)
            yield from [_ruled(evidence, run, watch, rule) for rule in stop.rules]


def _in_rows(stop: StopRules, stride: int) -> StopRules:
    """Rules for a log whose rows are not steps: a streak is as long, from its first row to its last, as the rule says in steps."""

    def in_rows(rule: StopRule) -> StopRule:
        return rule if rule.lasting is None else rule.model_copy(update={"lasting": _rows_of(rule.lasting, stride)})

    return StopRules(rules=tuple(map(in_rows, stop.rules)), green_lights=tuple(map(in_rows, stop.green_lights)))


def _rows_of(steps: int, stride: int) -> int:
    return math.ceil((steps - 1) / stride) + 1


def stopped_counts(evidence: Evidence, results: Sequence[Ruled]) -> Iterator[Finding]:
    """In how many runs of a condition a rule stops the run, or would have: of rules that stop any."""
    for condition, rule in dict.fromkeys((result.condition, result.rule) for result in results if result.stop):
        runs = evidence.runs_of(condition)
        states = {result.run: result.state for result in results if result.stop and result.rule == rule}
        counts = [(run, run.ref.name in states, states.get(run.ref.name, "").replace("_", " ")) for run in runs]
        yield runs_finding(evidence, "stopped", counts, {"subject": condition, "rule": rule}, evidence.histories(runs))


def _ruled(evidence: Evidence, run: RunEvidence, watch: Watch, rule: StopRule) -> tuple[Ruled, list[Finding]]:
    result: dict[str, Any] = {"run": run.ref.name, "condition": run.ref.condition, "rule": rule.id, "says": rule_text(rule)}
    if rule.lasting is not None and run.log.stride > 1:
        result["says"] += f"; here {_rows_of(rule.lasting, run.log.stride)} rows, one in {run.log.stride} steps"
    firings = [firing for firing in watch.firings if firing.rule == rule.id]
    if not firings:
        return Ruled.model_validate(result | _quiet(run, watch, rule)), []
    first, held = firings[0], [firing for firing in firings if firing.held_back]
    words = {"run": run.ref.name, "rule": rule.id, "condition": result["says"], "quantity": first.quantity}
    words["unit"] = evidence.meaning(first.metric).unit + (" per step" if first.quantity.startswith("slope") else "")

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
        agree |= run.goes_on and run.imported is None and stopped.step == run.log.last_step  # its trainer is ending it now
        result["state"] = "stopped" if agree else "would_have_stopped"
        if live is not None and not agree:  # only a history that is not the one that was trained can make the two differ
            own = f"the trainer stopped the run by {live.rule} at step {live.step}"
            result["why"] = f"{own}, its history says {rule.id} at step {stopped.step}"
    return Ruled.model_validate(result | {key: own.id for key, own in numbers.items()}), list(numbers.values())


def _quiet(run: RunEvidence, watch: Watch, rule: StopRule) -> dict[str, str]:
    """State of a rule that never held, and why."""
    if missing := sorted({leaf.metric for leaf in comparisons(rule.when)} - watch.measured):
        return {"state": "unknown", "why": f"{', '.join(missing)}: no number was logged" if run.log.last_step else "nothing was logged"}
    if watch.stopped:
        return {"state": "quiet", "why": f"the run ended at step {watch.stopped.step} by {watch.stopped.rule}"}
    late = f"the log ends at step {run.log.last_step}, before the rule looks"
    return {"state": "quiet", "why": late if run.log.last_step < rule.after else ""}


def rows(run: Run, metrics: Collection[str]) -> Iterator[tuple[int, Row]]:
    """(step, cells) of all logged steps up to the target, rising, as the recorder gave them to the rules while the run trained. A step at
    which only other metrics were logged has no cells: windows move on over it."""
    frame = run.steps.loc[: run.target_steps, [name for name in run.steps if name in {*metrics, *GRADIENT_METRICS, SKIPPED}]]
    unscored = set(run.unscored) if SILENT in frame else set()
    for step, cells in zip(frame.index.tolist(), frame.to_numpy().tolist(), strict=True):
        row = {str(name): cell for name, cell in zip(frame, cells, strict=True) if cell == cell}  # NaN: not logged
        if step in unscored and math.isfinite(row.get(SILENT, math.inf)):
            row[SILENT] = 1.0
        yield step, row
