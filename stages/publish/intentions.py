"""Actions with where their metrics are now, and contingency plans with their state: which of them the verdicts call for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from stages.contracts.finding import Expected, Ruled, Verdict
from stages.contracts.intention import Contingency
from stages.contracts.intention import Move as Aim
from stages.contracts.metric_words import words
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import listed
from stages.publish.text import shown

TONES = {"triggered": "failed", "not triggered": "finished", "undecided": "missing"}


@dataclass(frozen=True)
class Move:
    """What an action should move, and where that is now."""

    text: str
    now: Markup


@dataclass(frozen=True)
class ActionView:
    id: str
    priority: int
    do: str
    because: str
    changes: tuple[tuple[str, str], ...]
    """Dotted key and new value."""
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class PlanView:
    id: str
    when: Markup
    do: str
    changes: tuple[tuple[str, str], ...]
    state: str
    why: str

    @property
    def tone(self) -> str:
        return TONES[self.state]


def actions(experiment: ExperimentFiles, facts: Facts) -> tuple[ActionView, ...]:
    """In the card's order, which is that of priorities."""
    return tuple(
        ActionView(
            id=action.id,
            priority=action.priority,
            do=action.do,
            because=action.because,
            changes=_changes(action.change),
            moves=tuple(_move(experiment, facts, move) for move in action.expect),
        )
        for action in experiment.card.actions
    )


def plans(experiment: ExperimentFiles) -> tuple[PlanView, ...]:
    """In the spec's order."""
    return tuple(_plan(experiment, plan) for plan in experiment.card.contingency)


def _changes(change: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((key, "removed" if value is None else numbers.setting(value)) for key, value in change.items())


def _move(experiment: ExperimentFiles, facts: Facts, move: Aim) -> Move:
    direction, limit = ("above", move.above) if move.above is not None else ("below", move.below)
    bound = numbers.setting(limit).replace("-", numbers.MINUS)
    found = [(condition.name, facts.find(condition.name, move.metric, "final")) for condition in experiment.card.conditions]
    parts = [Markup("{} {}").format(shown(name), facts.value(finding)) for name, finding in found if finding]
    return Move(f"{words(move.metric)} {direction} {bound}", Markup(", ").join(parts))


_LINK = Markup('<a href="#claim-{0}">{0}</a> is {1}')
_OTHER = Markup("{0} <code>{1}</code> is {2}")


def _plan(experiment: ExperimentFiles, plan: Contingency) -> PlanView:
    outcomes, name = plan.when.wanted, plan.when.name
    wanted = shown(" or ".join(outcomes))
    if plan.when.waits == "claim":
        when = _LINK.format(shown(name), wanted)
        state, why = claim_state(experiment.verdicts.get(name), outcomes)
    elif plan.when.waits == "expectation":
        when = _OTHER.format("expectation", shown(name), wanted)
        scored = [score for score in experiment.conclusions.expectations if score.expectation == name]
        state, why = expectation_state(scored, outcomes)
    else:
        when = _OTHER.format("red flag", shown(name.removeprefix("red_flag-")), wanted)
        state, why = flag_state([result for result in experiment.conclusions.rules if result.rule == name])
    return PlanView(plan.id, when, plan.do, _changes(plan.change), state, why)


def claim_state(verdict: Verdict | None, wanted: tuple[str, ...]) -> tuple[str, str]:
    """(state, why) of a plan for these verdicts of a claim. A claim that is not decided decides no plan, unless the plan is for that."""
    if verdict is None:
        return "undecided", "there is no verdict yet"
    if verdict.verdict in wanted:
        return "triggered", f"the claim is {verdict.verdict}"
    if verdict.verdict in ("inconclusive", "void"):
        return "undecided", f"the claim is {verdict.verdict}, neither {listed(list(wanted))} nor the opposite"
    return "not triggered", f"the claim is {verdict.verdict}"


def expectation_state(scored: Sequence[Expected], wanted: tuple[str, ...]) -> tuple[str, str]:
    """Of a plan for an expectation: it is missed when any condition missed it, met when all conditions met it."""
    missed = [found.condition for found in scored if found.state == "missed"]
    if missed:
        return ("triggered" if "missed" in wanted else "not triggered"), f"missed in {listed(missed)}"
    if not scored or any(found.state == "not_reached" for found in scored):
        return "undecided", "not scored yet" if not scored else "its place has not been reached"
    return ("triggered" if "met" in wanted else "not triggered"), "met"


def flag_state(ruled: Sequence[Ruled]) -> tuple[str, str]:
    """Of a plan for a red flag: raised when it stopped a run, or would have."""
    raised = [found.run for found in ruled if found.state in ("stopped", "would_have_stopped")]
    if raised:
        return "triggered", f"raised in {listed(raised)}"
    if not ruled or any(found.state == "unknown" for found in ruled):
        return "undecided", "not evaluated yet" if not ruled else "what it asks for was never measured in some runs"
    held = [found.run for found in ruled if found.state == "held_back"]
    return "not triggered", f"a green light held it back in {listed(held)}" if held else "it was never raised"
