"""Actions and contingency plans -> the words of the page's card. The rules have held."""

from __future__ import annotations

from typing import Literal, TypedDict

from compiler.build.changed import Children, change_words, changed
from compiler.build.difference import Difference, differences
from compiler.build.inputs import Inputs
from compiler.language.experiment import Experiment
from compiler.language.spec_words import Move, When
from stages.contracts.intention import ActionWords, ContingencyWords, MoveWords


class Intentions(TypedDict):
    """Fields of the page's card."""

    actions: tuple[ActionWords, ...]
    contingency: tuple[ContingencyWords, ...]


def intentions(of: Experiment, inputs: Inputs) -> Intentions:
    """All of a spec, actions by priority. A profile's page shows those of the experiment."""
    proper = of.proper or of
    children = Children(of, inputs)
    actions = []
    for index, action in enumerate(proper.spec.actions):
        found = _changes(proper, "actions", index)
        actions.append(
            ActionWords(
                id=action.id,
                do=_line(action.do),
                priority=action.priority,
                because=_line(action.because),
                changes=change_words(found),
                expects=tuple(map(_move, action.expect)),
                tried=children.tried(found) if found else (),
            )
        )
    plans = []
    for index, plan in enumerate(proper.spec.contingency):
        found = _changes(proper, "contingency", index)
        waits, name = waits_for(plan.when)
        plans.append(
            ContingencyWords(
                id=plan.id,
                waits=waits,
                of=name,
                states=plan.when.wanted,
                do=_line(plan.do),
                changes=change_words(found),
                tried=children.tried(found) if found else (),
            )
        )
    return {"actions": tuple(sorted(actions, key=lambda action: action.priority)), "contingency": tuple(plans)}


def waits_for(when: When) -> tuple[Literal["claim", "expectation", "red_flag"], str]:
    """What a plan waits for, and the id by which findings name it."""
    if when.claim is not None:
        return "claim", when.claim
    if when.expectation is not None:
        return "expectation", when.expectation
    return "red_flag", f"red_flag-{when.red_flag}"


def _changes(of: Experiment, key: str, index: int) -> list[Difference]:
    change = of.node(key, index).get("change")
    return differences(of, changed(of, change)) if change is not None and change.value else []


def _move(move: Move) -> MoveWords:
    bound = move.above if move.above is not None else move.below
    return MoveWords(metric=move.metric, direction="above" if move.above is not None else "below", bound=float(bound or 0.0))


def _line(text: str) -> str:
    return " ".join(text.split())
