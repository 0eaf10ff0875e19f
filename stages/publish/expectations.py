"""Expectations met or missed, and what the stop rules did: the section of the page, and its lines of the summary."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.dated import Written
from stages.contracts.finding import Expected, Ruled
from stages.contracts.metric_words import words
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import listed, plural
from stages.publish.rule_places import expectation_place, rule_place
from stages.publish.text import shown, spoken

MARKS = {"met": "✓", "missed": "✗", "not_reached": "–"}
WORDS = {"met": "Met", "missed": "Missed", "not_reached": "Not reached"}
_MOST = 5


@dataclass(frozen=True)
class RunLine:
    run: str
    state: str
    value: Markup
    why: str
    """Of a run without a value."""

    @property
    def mark(self) -> str:
        return MARKS[self.state]


@dataclass(frozen=True)
class ExpectationView:
    """One expectation over one condition."""

    id: str
    condition: str
    state: str
    says: str
    counted: Markup
    runs: tuple[RunLine, ...]
    window: str
    place: str
    written: str
    """When it was committed, against the first data of its condition."""
    late: bool
    """It is younger than them."""

    @property
    def word(self) -> str:
        return WORDS[self.state]

    @property
    def mark(self) -> str:
        return MARKS[self.state]


@dataclass(frozen=True)
class RuleView:
    """One stop rule over one condition: a line for each run in which it held or had nothing to look at, the others by name."""

    rule: str
    condition: str
    says: str
    place: str
    lines: tuple[tuple[str, str, Markup], ...]
    """(run, state, what happened)."""
    quiet: tuple[str, ...]


def expectation_views(experiment: ExperimentFiles, facts: Facts) -> tuple[ExpectationView, ...]:
    """In the spec's order, then that of conditions."""
    return tuple(_expectation(experiment, facts, score) for score in experiment.conclusions.expectations)


def _expectation(experiment: ExperimentFiles, facts: Facts, score: Expected) -> ExpectationView:
    found = [facts.get(run.finding) for run in score.runs]
    digits = numbers.column_decimals((finding.value, None, None) for finding in found)
    windows = {run.window for run in score.runs}
    dated = experiment.changed.expectations.get(score.expectation, Written(written="unknown"))
    return ExpectationView(
        id=score.expectation,
        condition=score.condition,
        state=score.state,
        says=expectation_words(score),
        counted=facts.counted(facts.get(score.finding)),
        runs=tuple(
            RunLine(run.run, run.state, facts.value(finding, decimals=digits), "" if finding.value is not None else run.why)
            for run, finding in zip(score.runs, found, strict=True)
        ),
        window=windows.pop() if len(windows) == 1 else "windows differ between runs",
        place=str(expectation_place(experiment, score.expectation) or ""),
        written=dated.written,
        late=bool(dated.late),
    )


def expectation_words(score: Expected) -> str:
    """`reward (`reward`) above 0.2 at 50%`."""
    said = words(score.metric)
    key = "" if said == score.metric else f" (`{score.metric}`)"
    return f"{said}{key} {score.direction} {_bound(score.bound)} at {score.place}"


def _bound(value: float) -> str:
    return f"{value:g}".replace("-", numbers.MINUS)


def rule_views(experiment: ExperimentFiles, facts: Facts) -> tuple[RuleView, ...]:
    """Rules by condition, in the order of runs."""
    groups: dict[tuple[str, str, str], list[Ruled]] = {}
    for result in experiment.conclusions.rules:
        groups.setdefault((result.condition, result.rule, result.says), []).append(result)
    return tuple(
        RuleView(
            rule=rule,
            condition=condition,
            says=says,
            place=str(rule_place(experiment, condition, rule) or ""),
            lines=tuple((result.run, result.state, _told(facts, result)) for result in results if result.state != "quiet"),
            quiet=tuple(result.run for result in results if result.state == "quiet"),
        )
        for (condition, rule, says), results in groups.items()
    )


def _told(facts: Facts, result: Ruled) -> Markup:
    """What a rule did in a run."""
    if result.state == "unknown" or result.first is None or result.value is None:
        return shown(f"Nothing to look at: {result.why}.")
    first, value = facts.value(facts.get(result.first)), facts.value(facts.get(result.value))
    parts = [Markup("It first held at step {}, with {}.").format(first, value)]
    if result.held is not None:
        lights = spoken(listed([f"`{light}`" for light in result.lights]))
        parts.append(Markup("A green light held it back on {} steps: {}.").format(facts.value(facts.get(result.held)), lights))
    if result.stop is not None:
        said = "It stopped the run at step {}." if result.state == "stopped" else "It would have stopped the run at step {}."
        parts.append(Markup(said).format(facts.value(facts.get(result.stop))))
    if result.why:
        parts.append(shown(f"{result.why[:1].upper()}{result.why[1:]}."))
    return Markup(" ").join(parts)


_LINE = Markup('<strong>{}:</strong> <a class="quiet" href="#expectations-and-stop-rules">{}</a>{}')


def lines(experiment: ExperimentFiles, facts: Facts) -> list[tuple[str, Markup]]:
    """(tone, sentence) for the summary: missed expectations first, then runs that rules stopped."""
    found = []
    scores = experiment.conclusions.expectations
    missed = [score for score in scores if score.state == "missed"]
    for score in missed[:_MOST]:
        by = Markup(": met by {} runs of {}.").format(facts.counted(facts.get(score.finding)), shown(score.condition))
        found.append(("warn", _LINE.format("Expectation missed", spoken(expectation_words(score)), by)))
    if len(missed) > _MOST:
        found.append(("warn", _LINE.format("Expectations missed", shown(plural(len(missed) - _MOST, "more expectation")), Markup("."))))
    met, unreached = ([score for score in scores if score.state == state] for state in ("met", "not_reached"))
    if met and not missed:
        said = "all that runs got to" if unreached else "all"
        late = sum(bool(rule.late) for rule in experiment.changed.expectations.values())
        after = f"; {late} written or edited after the data, so no prediction" if late else ""
        counted = shown(f"{said}, {len(met)} of {len(scores)}")
        found.append(("plain", _LINE.format("Expectations met", counted, shown(f"{after}."))))
    for state, title in (("stopped", "Stopped by a rule"), ("would_have_stopped", "Not stopped, though a rule says so")):
        stopped: dict[tuple[str, str], list[Ruled]] = {}
        for result in experiment.conclusions.rules:
            if result.state == state:
                stopped.setdefault((result.condition, result.rule), []).append(result)
        for (condition, rule), results in stopped.items():
            steps = Markup(", ").join(facts.value(facts.get(result.stop)) for result in results if result.stop)
            counted = facts.counted(facts.find(condition, rule, "stopped"))
            rest = Markup(", {} runs at step {}.").format(counted, steps)
            found.append(("warn", _LINE.format(title, shown(f"{condition}, by {rule}"), rest)))
    return found
