"""Actions and contingency plans with their state: what a child has tried, and which plan the verdicts call for."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.finding import Verdict
from stages.contracts.intention import ChangeWords, ContingencyWords, MoveWords
from stages.contracts.metric_words import words
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import listed
from stages.publish.text import shown

TONES = {"tried": "finished", "open": "missing", "triggered": "failed", "not triggered": "finished", "undecided": "missing"}


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
    changes: tuple[ChangeWords, ...]
    moves: tuple[Move, ...]
    state: str
    tried: tuple[str, ...]

    @property
    def tone(self) -> str:
        return TONES[self.state]


@dataclass(frozen=True)
class PlanView:
    id: str
    when: Markup
    do: str
    changes: tuple[ChangeWords, ...]
    state: str
    why: str
    tried: tuple[str, ...]

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
            changes=action.changes,
            moves=tuple(_move(experiment, facts, move) for move in action.expects),
            state="tried" if action.tried else "open",
            tried=action.tried,
        )
        for action in experiment.card.actions
    )


def plans(experiment: ExperimentFiles) -> tuple[PlanView, ...]:
    """In the spec's order."""
    return tuple(_plan(experiment, plan) for plan in experiment.card.contingency)


def _move(experiment: ExperimentFiles, facts: Facts, move: MoveWords) -> Move:
    bound = numbers.setting(move.bound).replace("-", numbers.MINUS)
    found = [(condition.name, facts.find(condition.name, move.metric, "final")) for condition in experiment.card.conditions]
    parts = [Markup("{} {}").format(shown(name), facts.value(finding)) for name, finding in found if finding]
    return Move(f"{words(move.metric)} {move.direction} {bound}", Markup(", ").join(parts))


_WHEN = Markup('<a href="#claim-{claim}">{claim}</a> is {verdicts}')


def _plan(experiment: ExperimentFiles, plan: ContingencyWords) -> PlanView:
    state, why = claim_state(experiment.verdicts.get(plan.claim), plan.verdicts)
    return PlanView(
        id=plan.id,
        when=_WHEN.format(claim=shown(plan.claim), verdicts=shown(" or ".join(plan.verdicts))),
        do=plan.do,
        changes=plan.changes,
        state=state,
        why=why,
        tried=plan.tried,
    )


def claim_state(verdict: Verdict | None, wanted: tuple[str, ...]) -> tuple[str, str]:
    """(state, why) of a plan for these verdicts of a claim. A claim that is not decided decides no plan, unless the plan is for that."""
    if verdict is None:
        return "undecided", "there is no verdict yet"
    if verdict.verdict in wanted:
        return "triggered", f"the claim is {verdict.verdict}"
    if verdict.verdict in ("inconclusive", "void"):
        return "undecided", f"the claim is {verdict.verdict}, neither {listed(list(wanted))} nor the opposite"
    return "not triggered", f"the claim is {verdict.verdict}"
