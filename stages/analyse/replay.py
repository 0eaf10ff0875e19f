"""A run's recorded history as the rules see it: the same rows that the recorder gave them while the run trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stages.analyse.tables import History
from stages.contracts.expressions import comparisons
from stages.contracts.observed import SILENT
from stages.contracts.rule_card import ExpectCard, StopCard
from stages.rules import Answer, Firing, Row, Seen, Watch, answer


class Fired(NamedTuple):
    """The firings of one rule: the first one, and the first and last of the `held` ones that a green light held back."""

    first: Firing
    held: int
    held_first: Firing | None
    held_last: Firing | None
    lights: tuple[str, ...]
    """Green lights that held it back, each once."""


@dataclass(frozen=True)
class Replayed:
    """What rules and expectations say of a run."""

    fired: Mapping[str, Fired]
    """By rule; rules that never fired are left out."""
    stopped: Firing | None
    known: frozenset[str]
    """Metrics that had a number at any step that the rules saw."""
    answers: Mapping[ExpectCard, Answer]


def asked(stop: StopCard | None, expectations: Iterable[ExpectCard]) -> set[str]:
    """Metrics that the rules and expectations look at."""
    rules = (*stop.rules, *stop.green_lights) if stop else ()
    return {leaf.metric for rule in rules for leaf in comparisons(rule.when)} | {card.metric for card in expectations}


def replay(
    history: History, stop: StopCard | None, expectations: Iterable[ExpectCard], *, target_steps: int, done: int, share: float
) -> Replayed:
    """Rows beyond the target are no part of the run. `done`: steps that the run is known to have done. `share`: width of an expectation's
    window in target steps."""
    expectations = tuple(expectations)
    found = [row for row in rows(history) if row[0] <= target_steps] if stop or expectations else []
    answers = {card: answer(card, found, target_steps=target_steps, done=done, share=share) for card in expectations}
    if stop is None:
        return Replayed({}, None, frozenset(), answers)
    watch = Watch(stop)
    for step, row in found:
        watch.see(step, row)
    every = {rule.id: [firing for firing in watch.firings if firing.rule == rule.id] for rule in stop.rules}
    fired = {name: _summed(firings) for name, firings in every.items() if firings}
    return Replayed(fired, watch.stopped, frozenset(watch.known), answers)


def _summed(firings: list[Firing]) -> Fired:
    held = [firing for firing in firings if firing.held_back]
    lights = tuple(dict.fromkeys(firing.held_back for firing in held if firing.held_back))
    return Fired(firings[0], len(held), held[0] if held else None, held[-1] if held else None, lights)


def rows(history: History) -> list[tuple[int, Row]]:
    """(step, cells) of all logged steps, rising. Attempts are merged: what a later one made again counts once. A step at which only other
    metrics were logged is there without cells: windows move on over it."""
    found: dict[int, dict[str, Seen]] = {step: {} for step in history.steps.tolist()}
    for name, column in history.columns.items():
        for step, value, state in column.cells():
            found[step][name] = {"nonfinite": "nan"} if state == "nonfinite" else value
    for step in history.unscored.tolist() if SILENT in history.columns else ():
        if isinstance(found[step].get(SILENT), float):
            found[step][SILENT] = 1.0
    return list(found.items())
