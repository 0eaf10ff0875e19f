"""Expectations, stop rules, actions and contingency plans: what the sections and the summary say of them, and where the spec has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from stages.contracts.finding import Expected, Finding, Ruled, RunScore, Verdict
from stages.contracts.history import metric_title
from stages.contracts.lineage import Origin
from stages.contracts.page_card import Contingency
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import listed, plural
from stages.publish.text import escape, escape_with_code

WORDS = {"met": "Met", "missed": "Missed", "not_reached": "Not reached"}
MARKS = {"met": "✓", "missed": "✗", "not_reached": "–"}
_MOST = 5
_LINE = Markup('<strong>{}:</strong> <a class="quiet" href="#expectations-and-stop-rules">{}</a>{}')


def printed(facts: Facts, score: Expected) -> list[tuple[RunScore, Markup, str]]:
    """(score of a run, value, why there is none), the values in equal digits."""
    findings = [facts.get(run.finding) for run in score.runs]
    digits = numbers.column_decimals((finding.value, None, None) for finding in findings)
    return [(run, facts.value(f, digits), run.why if f.value is None else "") for run, f in zip(score.runs, findings, strict=True)]


def expectation_words(score: Expected) -> str:
    """`reward above 0.2 at 50%`."""
    name = metric_title(score.metric)
    key = "" if name == score.metric else f" (`{score.metric}`)"
    bound = f"{score.bound:g}".replace("-", numbers.MINUS)
    return f"{name}{key} {score.direction} {bound} at {score.place}"


def rules(experiment: ExperimentFiles) -> dict[tuple[str, str, str], list[Ruled]]:
    """(condition, rule, the rule in words) -> what it did in each run, in the order of runs."""
    groups: dict[tuple[str, str, str], list[Ruled]] = {}
    for result in experiment.conclusions.rules:
        groups.setdefault((result.condition, result.rule, result.says), []).append(result)
    return groups


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
    names = [expectation.name for expectation in experiment.conclude.expectations] if experiment.conclude else []
    return _places(experiment).get(f"/expectations/{names.index(expectation)}") if expectation in names else None


def rule_place(experiment: ExperimentFiles, condition: str, rule: str) -> Origin | None:
    """Where the spec declares a stop rule of a condition."""
    stop = experiment.conclude.stops.get(condition) if experiment.conclude else None
    names = [card.id for card in stop.rules] if stop else []
    return _places(experiment).get(f"/stops/{condition}/rules/{names.index(rule)}") if rule in names else None


def _places(experiment: ExperimentFiles) -> Mapping[str, Origin]:
    return experiment.origins.cards.get("analysis/conclude.card.json", {})


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


def now(experiment: ExperimentFiles, facts: Facts, metric: str) -> Markup:
    """`shaped 0.87, zero 0.51`: where a metric is at the end."""
    ends = [(condition.name, facts.find(condition.name, metric, "final")) for condition in experiment.card.conditions]
    return Markup(", ").join(Markup("{} {}").format(escape(name), facts.value(finding)) for name, finding in ends if finding)


def plan_state(experiment: ExperimentFiles, plan: Contingency) -> tuple[str, str]:
    """(triggered, not triggered or undecided; why)."""
    name, wanted = plan.when.name, plan.when.wanted
    if plan.when.waits == "claim":
        return claim_state(experiment.verdicts.get(name), wanted)
    if plan.when.waits == "expectation":
        return expectation_state([score for score in experiment.conclusions.expectations if score.expectation == name], wanted)
    return flag_state([result for result in experiment.conclusions.rules if result.rule == name])


def claim_state(verdict: Verdict | None, wanted: tuple[str, ...]) -> tuple[str, str]:
    """Of a plan for these verdicts of a claim. A claim that is not decided decides no plan, unless the plan is for that."""
    if verdict is None:
        return "undecided", "there is no verdict yet"
    if verdict.verdict in wanted:
        return "triggered", f"the claim is {verdict.verdict}"
    if verdict.verdict in ("inconclusive", "void"):
        return "undecided", f"the claim is {verdict.verdict}, neither {listed(list(wanted))} nor the opposite"
    return "not triggered", f"the claim is {verdict.verdict}"


def expectation_state(scores: Sequence[Expected], wanted: tuple[str, ...]) -> tuple[str, str]:
    """Of a plan for an expectation: it is missed when any condition missed it, met when all conditions met it."""
    missed = [score.condition for score in scores if score.state == "missed"]
    if missed:
        return ("triggered" if "missed" in wanted else "not triggered"), f"missed in {listed(missed)}"
    if not scores or any(score.state == "not_reached" for score in scores):
        return "undecided", "not scored yet" if not scores else "its place has not been reached"
    return ("triggered" if "met" in wanted else "not triggered"), "met"


def flag_state(results: Sequence[Ruled]) -> tuple[str, str]:
    """Of a plan for a red flag: raised when it stopped a run, or would have."""
    raised = [result.run for result in results if result.state in ("stopped", "would_have_stopped")]
    if raised:
        return "triggered", f"raised in {listed(raised)}"
    if not results or any(result.state == "unknown" for result in results):
        return "undecided", "not evaluated yet" if not results else "its metric was never measured in some runs"
    held = [result.run for result in results if result.state == "held_back"]
    return "not triggered", f"a green light held it back in {listed(held)}" if held else "it was never raised"
