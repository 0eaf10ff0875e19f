"""Stop rules and expectations once more, on recorded histories: the evaluator that ran while the run trained must say the same again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from stages.analyse.frames import NULL, SILENT, Run
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.finding import Expected, Finding, Ruled, RunScore, SeedValue
from stages.contracts.health import Health
from stages.contracts.history import GRADIENT_METRICS, SKIPPED, metric
from stages.contracts.rule_card import ExpectCard, RuleCard, StopCard
from stages.rules import Answer, Firing, Row, Watch, answer, condition_text, leaves, rule_text, stretch

if TYPE_CHECKING:
    from stages.analyse.evidence import Evidence, RunEvidence

_REPLAYED = "the stop rules evaluated on the recorded histor"


@dataclass(frozen=True)
class Replayed:
    """What rules and expectations say of a run."""

    stop: StopCard | None
    firings: Mapping[str, list[Firing]]
    """By rule; rules that never fired are left out."""
    stopped: Firing | None
    known: frozenset[str]
    """Metrics that had a number at any step that the rules saw."""
    answers: Mapping[str, Answer]
    """By expectation."""


def rows(run: Run, metrics: Collection[str] | None = None) -> Iterator[tuple[int, Row]]:
    """(step, cells) of all logged steps, rising, as the recorder gave them to the rules while the run trained. A step at which only other
    metrics were logged has no cells: windows move on over it."""
    frame = run.steps if metrics is None else run.steps[[name for name in run.steps.columns if name in metrics]]
    unscored = set(run.unscored) if SILENT in frame.columns else set()
    names = [str(name) for name in frame.columns]
    for step, cells in zip(frame.index.tolist(), frame.to_numpy().tolist(), strict=True):
        row: dict[str, Any] = {
            name: cell if isfinite(cell) else None if cell == NULL else {"nonfinite": "nan"}
            for name, cell in zip(names, cells, strict=True)
            if cell == cell  # NaN: not logged
        }
        if step in unscored and isinstance(row.get(SILENT), float):
            row[SILENT] = 1.0
        yield step, row


def replay(run: Run, card: ConcludeCard, health: Health | None) -> Replayed:
    """Evaluate the rules and expectations of a run's condition. Rows beyond the target are no part of the run."""
    stop = next((own.stop for own in card.stops if own.condition == run.condition), None)
    expectations = [expected for expected in card.expectations if run.condition in expected.conditions]
    rules = (*stop.rules, *stop.green_lights) if stop else ()
    asked = {leaf.metric for rule in rules for leaf in leaves(rule.when)} | {expected.metric for expected in expectations}
    if not asked:
        return Replayed(None, {}, None, frozenset(), {})
    seen = [row for row in rows(run, {*asked, *GRADIENT_METRICS, SKIPPED}) if row[0] <= run.target_steps]
    # a log with a stride reaches a place that lies before its next row; a trainer's own count of steps is believed
    done = max(run.last_step + run.stride - 1 if run.last_step else 0, (health.steps_done or 0) if health else 0)
    answers = {
        expected.id: answer(expected, seen, target_steps=run.target_steps, done=done, share=card.windows.final) for expected in expectations
    }
    if health and health.stopped:
        why = f"stopped by {health.stopped.rule} at step {health.stopped.step}"
        late = {name: Answer(one.state, None, one.window, why) for name, one in answers.items() if one.state == "not_reached"}
        answers |= late
    if stop is None:
        return Replayed(None, {}, None, frozenset(), answers)
    watch = Watch(stop)
    for step, row in seen:
        watch.see(step, row)
    firings: dict[str, list[Firing]] = {}
    for firing in watch.firings:
        firings.setdefault(firing.rule, []).append(firing)
    return Replayed(stop, firings, watch.stopped, frozenset(watch.known), answers)


def expected(evidence: Evidence) -> Iterator[tuple[Expected, list[Finding]]]:
    """For each expectation and condition that it is about: its score, and the findings that hold the score's numbers."""
    for card in evidence.card.expectations:
        for condition in card.conditions:
            runs = evidence.of(condition)
            answers = [run.rules.answers[card.id] for run in runs]
            values = [_expected_value(card, evidence, run, one) for run, one in zip(runs, answers, strict=True)]
            whys = [f"{one.state.replace('_', ' ')}: {one.why}" for one in answers]
            count = _count(
                evidence,
                f"{condition}/expect.{card.id}/met",
                f"Runs in which {card.metric} is {card.direction} {card.bound:g} at {card.place}, of {len(runs)}; {condition}",
                "counted; left-out runs count too, those that did not get there as not met",
                runs,
                [(one.state == "met", why) for one, why in zip(answers, whys, strict=True)],
            )
            scores = tuple(
                RunScore(run=run.ref.name, state=one.state, finding=value.id, window=one.window, why=one.why)
                for run, one, value in zip(runs, answers, values, strict=True)
            )
            score = Expected(
                expectation=card.id,
                condition=condition,
                metric=card.metric,
                place=card.place,
                direction=card.direction,
                bound=card.bound,
                finding=count.id,
                runs=scores,
            )
            yield score, [count, *values]


def _expected_value(card: ExpectCard, evidence: Evidence, run: RunEvidence, one: Answer) -> Finding:
    known = metric(card.metric)
    says = f"{known.says if known else card.metric}; mean over the tenth of the run that ends at {card.place}; run {run.ref.name}"
    return Finding(
        id=f"{run.ref.name}/{card.metric}/{card.statistic}",
        says=says,
        subject=run.ref.name,
        metric=card.metric,
        statistic=card.statistic,
        unit=known.unit if known else "",
        value=one.value,
        reason=one.why if one.value is None else "",
        method="mean over the logged steps of one run",
        window=one.window,
        sources=evidence.histories([run]),
    )


def _count(
    evidence: Evidence, id_: str, says: str, method: str, runs: Sequence[RunEvidence], counts: Sequence[tuple[bool, str]]
) -> Finding:
    """How many of the runs count; `counts`: whether each does, and why."""
    subject, name, statistic = id_.split("/")
    k = sum(held for held, _ in counts)
    seeds = tuple(
        SeedValue(run=run.ref.name, seed=run.ref.seed, value=float(held), included=True, why=why)
        for run, (held, why) in zip(runs, counts, strict=True)
    )
    numbers = {"value": float(k), "n": len(runs), "k": k, "seeds": seeds, "sources": evidence.histories(runs)}
    return Finding(id=id_, says=says, subject=subject, metric=name, statistic=statistic, unit="runs", method=method, **numbers)


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
        counts = [(run.ref.name in states, states.get(run.ref.name, "").replace("_", " ")) for run in runs]
        says = f"Runs that {rule} stops before their end, of {len(runs)}; {condition}"
        yield _count(evidence, f"{condition}/{rule}/stopped", says, method, runs, counts)


def _ruled(evidence: Evidence, run: RunEvidence, rule: RuleCard) -> tuple[Ruled, list[Finding]]:
    replayed, text = run.rules, rule_text(rule)
    about = {"run": run.ref.name, "condition": run.ref.condition, "rule": rule.id, "says": text}
    firings = replayed.firings.get(rule.id, [])
    if not firings:
        missing = sorted({leaf.metric for leaf in leaves(rule.when)} - replayed.known)
        if missing:
            why = f"{', '.join(missing)}: no number was logged" if run.logged else "nothing was logged"
            return Ruled.model_validate({**about, "state": "unknown", "why": why}), []
        return Ruled.model_validate({**about, "state": "quiet", "why": _ended(run, rule)}), []
    first, held = firings[0], [firing for firing in firings if firing.held_back]
    known = metric(first.metric)
    unit = (known.unit if known else "") + (" per step" if first.quantity.startswith("slope") else "")
    value_says = f"What {rule.id} measured when it first held: {first.quantity}"
    findings = [
        _finding(evidence, run, first, "first-step", f"First step at which {rule.id} held ({text})", float(first.step), "steps"),
        _finding(evidence, run, first, "value", value_says, first.value, unit),
    ]
    result: dict[str, Any] = {**about, "state": "held_back", "first": findings[0].id, "value": findings[1].id}
    if held:
        says = f"Steps at which {rule.id} held ({text}) and a green light kept the run going"
        finding = _finding(evidence, run, held[0], "held-back", says, float(len(held)), "steps")
        findings.append(finding.model_copy(update={"window": f"steps {held[0].step}-{held[-1].step}"}))
        lights = {light.id: condition_text(light.when) for light in (replayed.stop.green_lights if replayed.stop else ())}
        result |= {"held": finding.id, "lights": tuple(dict.fromkeys(lights[firing.held_back or ""] for firing in held))}
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


def _ended(run: RunEvidence, rule: RuleCard) -> str:
    if run.rules.stopped:
        return f"the run ended at step {run.rules.stopped.step} by {run.rules.stopped.rule}"
    return f"the log ends at step {run.last_step}, before the rule looks" if run.last_step < rule.after else ""


def _finding(evidence: Evidence, run: RunEvidence, firing: Firing, statistic: str, says: str, value: float, unit: str) -> Finding:
    return Finding(
        id=f"{run.ref.name}/{firing.rule}/{statistic}",
        says=f"{says}; run {run.ref.name}",
        subject=run.ref.name,
        metric=firing.rule,
        statistic=statistic,
        unit=unit,
        value=value,
        method=f"{_REPLAYED}y",
        window=stretch(firing.first, firing.step),
        sources=evidence.histories([run]),
    )
