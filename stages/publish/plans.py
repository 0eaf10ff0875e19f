"""Where the metrics of actions are now, and which contingency plans the verdicts call for."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from stages.contracts.finding import Expected, Ruled, Verdict
from stages.contracts.intention import Contingency
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import listed
from stages.publish.text import escape


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
