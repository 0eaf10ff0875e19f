"""Expectations scored: each run's value at the place, and how many runs of a condition met it."""

from __future__ import annotations

from collections.abc import Iterator

from stages.analyse.evidence import Evidence, RunEvidence, meaning
from stages.contracts.finding import Expected, Finding, RunScore, SeedValue
from stages.contracts.rule_card import ExpectCard
from stages.rules import Answer


def expected(card: ExpectCard, evidence: Evidence) -> Iterator[tuple[Expected, list[Finding]]]:
    """For each condition that the expectation is about: its score, and the findings that hold the score's numbers."""
    for condition in card.conditions:
        runs = evidence.of(condition)
        answers = [_answer(card, run) for run in runs]
        values = [_value(card, evidence, run, found) for run, found in zip(runs, answers, strict=True)]
        count = _count(card, evidence, condition, runs, answers)
        scores = tuple(
            RunScore(run=run.ref.name, state=found.state, finding=value.id, window=found.window, why=found.why)
            for run, found, value in zip(runs, answers, values, strict=True)
        )
        yield (
            Expected(
                expectation=card.id,
                condition=condition,
                metric=card.metric,
                place=card.place,
                direction=card.direction,
                bound=card.bound,
                finding=count.id,
                runs=scores,
            ),
            [count, *values],
        )


def _answer(card: ExpectCard, run: RunEvidence) -> Answer:
    found, health = run.replayed.answers[card], run.health
    if found.state == "not_reached" and health and health.stopped:
        return Answer(found.state, None, found.window, f"stopped by {health.stopped.rule} at step {health.stopped.step}")
    return found


def _value(card: ExpectCard, evidence: Evidence, run: RunEvidence, found: Answer) -> Finding:
    about = meaning(card.metric)
    return Finding(
        id=f"{run.ref.name}/{card.metric}/{card.statistic}",
        says=f"{about.says}; mean over the tenth of the run that ends at {card.place}; run {run.ref.name}",
        subject=run.ref.name,
        metric=card.metric,
        statistic=card.statistic,
        unit=about.unit,
        value=found.value,
        reason=found.why if found.value is None else "",
        method="mean over the logged steps of one run",
        window=found.window,
        sources=(evidence.source(run.trace.path, run.trace.attempt),) if run.trace.exists else (),
    )


def _count(card: ExpectCard, evidence: Evidence, condition: str, runs: list[RunEvidence], answers: list[Answer]) -> Finding:
    met = sum(found.state == "met" for found in answers)
    return Finding(
        id=f"{condition}/expect.{card.id}/met",
        says=f"Runs in which {card.metric} is {card.direction} {card.bound:g} at {card.place}, of {len(runs)}; {condition}",
        subject=condition,
        metric=f"expect.{card.id}",
        statistic="met",
        unit="runs",
        value=float(met),
        method="counted; left-out runs count too, those that did not get there as not met",
        n=len(runs),
        k=met,
        seeds=tuple(
            SeedValue(
                run=run.ref.name,
                seed=run.ref.seed,
                value=float(found.state == "met"),
                included=True,
                why=f"{found.state.replace('_', ' ')}: {found.why}",
            )
            for run, found in zip(runs, answers, strict=True)
        ),
        sources=tuple(evidence.source(run.trace.path, run.trace.attempt) for run in runs if run.trace.exists),
    )
