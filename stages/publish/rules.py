"""Expectations and stop rules: their sections, their lines of the summary, and where the spec declares them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from stages.contracts.dated import Written
from stages.contracts.finding import Expected, Finding, Ruled
from stages.contracts.metric_words import words
from stages.contracts.origin import Origin
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import listed, plural
from stages.publish.text import escape, escape_with_code

WORDS = {"met": "Met", "missed": "Missed", "not_reached": "Not reached"}
MARKS = {"met": "✓", "missed": "✗", "not_reached": "–"}
_MOST = 5
_CARD = "analysis/conclude.card.json"
_LINE = Markup('<strong>{}:</strong> <a class="quiet" href="#expectations-and-stop-rules">{}</a>{}')


@dataclass(frozen=True)
class ExpectationView:
    """One expectation over one condition, with the numbers of its runs in equal digits."""

    score: Expected
    counted: Markup
    runs: tuple[tuple[Any, Markup, str], ...]
    """(score, value, why there is no value)."""
    place: Origin | None
    dated: Written

    @property
    def window(self) -> str:
        windows = {run.window for run in self.score.runs}
        return windows.pop() if len(windows) == 1 else "windows differ between runs"


def expectations(experiment: ExperimentFiles, facts: Facts) -> Iterator[ExpectationView]:
    """In the spec's order, then that of conditions."""
    for score in experiment.conclusions.expectations:
        findings = [facts.get(run.finding) for run in score.runs]
        digits = numbers.column_decimals((finding.value, None, None) for finding in findings)
        yield ExpectationView(
            score,
            facts.counted(facts.get(score.finding)),
            tuple((run, facts.value(f, digits), run.why if f.value is None else "") for run, f in zip(score.runs, findings, strict=True)),
            expectation_place(experiment, score.expectation),
            experiment.changed.expectations.get(score.expectation, Written(written="unknown")),
        )


def expectation_words(score: Expected) -> str:
    """`reward above 0.2 at 50%`."""
    name = words(score.metric)
    key = "" if name == score.metric else f" (`{score.metric}`)"
    bound = f"{score.bound:g}".replace("-", numbers.MINUS)
    return f"{name}{key} {score.direction} {bound} at {score.place}"


def rules(experiment: ExperimentFiles) -> dict[tuple[str, str, str], list[Ruled]]:
    """(condition, rule, the rule in words) -> what it did in each run, in the order of runs."""
    groups: dict[tuple[str, str, str], list[Ruled]] = {}
    for result in experiment.conclusions.rules:
        groups.setdefault((result.condition, result.rule, result.says), []).append(result)
    return groups


def rule_effect(facts: Facts, result: Ruled) -> Markup:
    """What a rule did in a run."""
    if result.state == "unknown" or result.first is None or result.value is None:
        return escape(f"Nothing to look at: {result.why}.")
    first, value = facts.value(facts.get(result.first)), facts.value(facts.get(result.value))
    parts = [Markup("It first held at step {}, with {}.").format(first, value)]
    if result.held is not None:
        lights = escape_with_code(listed([f"`{light}`" for light in result.lights]))
        parts.append(Markup("A green light held it back on {} steps: {}.").format(facts.value(facts.get(result.held)), lights))
    if result.stop is not None:
        stopped = "It stopped the run at step {}." if result.state == "stopped" else "It would have stopped the run at step {}."
        parts.append(Markup(stopped).format(facts.value(facts.get(result.stop))))
    if result.why:
        parts.append(escape(f"{result.why[:1].upper()}{result.why[1:]}."))
    return Markup(" ").join(parts)


def lines(experiment: ExperimentFiles, facts: Facts) -> Iterator[tuple[str, Markup]]:
    """(tone, sentence) for the summary: missed expectations first, then runs that rules stopped."""
    scores = experiment.conclusions.expectations
    missed = [score for score in scores if score.state == "missed"]
    for score in missed[:_MOST]:
        by = Markup(": met by {} runs of {}.").format(facts.counted(facts.get(score.finding)), escape(score.condition))
        yield "warn", _LINE.format("Expectation missed", escape_with_code(expectation_words(score)), by)
    if len(missed) > _MOST:
        yield "warn", _LINE.format("Expectations missed", escape(plural(len(missed) - _MOST, "more expectation")), ".")
    met = [score for score in scores if score.state == "met"]
    if met and not missed:
        which = "all that runs reached" if len(met) < len(scores) else "all"
        late = sum(bool(rule.late) for rule in experiment.changed.expectations.values())
        after = f"; {late} written or edited after the data, so no prediction" if late else ""
        yield "plain", _LINE.format("Expectations met", escape(f"{which}, {len(met)} of {len(scores)}"), escape(f"{after}."))
    for state, title in (("stopped", "Stopped by a rule"), ("would_have_stopped", "Not stopped, although a rule would have")):
        for (condition, rule, _), results in rules(experiment).items():
            stops = [facts.value(facts.get(result.stop)) for result in results if result.state == state and result.stop]
            if stops:
                counted = facts.counted(facts.find(condition, rule, "stopped"))
                rest = Markup(", {} runs at step {}.").format(counted, Markup(", ").join(stops))
                yield "warn", _LINE.format(title, escape(f"{condition}, by {rule}"), rest)


def expectation_place(experiment: ExperimentFiles, expectation: str) -> Origin | None:
    """Where the spec declares an expectation."""
    names = [card.id for card in experiment.conclude.expectations] if experiment.conclude else []
    pointer = f"/expectations/{names.index(expectation)}" if expectation in names else ""
    return experiment.origins.cards.get(_CARD, {}).get(pointer)


def rule_place(experiment: ExperimentFiles, condition: str, rule: str) -> Origin | None:
    """Where the spec declares a stop rule of a condition."""
    for index, entry in enumerate(experiment.conclude.stops if experiment.conclude else ()):
        names = [card.id for card in entry.stop.rules]
        if entry.condition == condition and rule in names:
            return experiment.origins.cards.get(_CARD, {}).get(f"/stops/{index}/stop/rules/{names.index(rule)}")
    return None


def asked_by(experiment: ExperimentFiles, finding: Finding) -> tuple[str, ...]:
    """`specs/quickstart.yaml:60:5 expectation learns`: the expectations and rules that a number answers, with their places."""
    asked: dict[tuple[str, Origin | None], None] = {}
    for score in experiment.conclusions.expectations:
        if finding.id == score.finding or any(run.finding == finding.id for run in score.runs):
            asked[f"expectation {score.expectation}", expectation_place(experiment, score.expectation)] = None
    for result in experiment.conclusions.rules:
        if finding.id in (f"{result.condition}/{result.rule}/stopped", result.first, result.value, result.held, result.stop):
            asked[f"stop rule {result.rule}", rule_place(experiment, result.condition, result.rule)] = None
    return tuple(f"{place} {name}" if place else name for name, place in asked)
