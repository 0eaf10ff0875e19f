"""Rules about expectations: a place that runs get to, a metric that they log, a bound that can be missed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_all
from compiler.build.stops import conditions_of, name_of
from compiler.checks.rules_stops import no_condition, not_logged
from compiler.document.units import read_length
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.spec_rules import Expectation
from stages.contracts.diagnostic import Diagnostic, Note
from stages.contracts.history import metric


def expectations_name_what_exists(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E302 conditions, E369 no condition at all, E361 metrics."""
    setups = {setup.name: setup for setup in expansion.setups}
    for index, expectation in enumerate(of.spec.expect):
        node = of.node("expect", index)
        for place, name in enumerate(expectation.conditions):
            if name not in of.spec.conditions:
                yield no_condition(of, name, of.node("expect", index, "conditions", place))
        names = conditions_of(of, expectation)
        if not names:
            yield Diagnostic(
                "E369",
                "an expectation about no condition",
                why="without `conditions` it is about the treatments, and this spec has none",
                fix=f"conditions: [{next(iter(of.spec.conditions))}]",
                place=node.place,
            )
        for name in names:
            if name in setups and expectation.metric not in (logged := logged_by_all([setups[name]])):
                written = of.node("expect", index, "metric").place
                yield not_logged(setups[name], expectation.metric, logged, written, "add `conditions: [...]` with those that log it")
                break


def places_are_reached(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E362. 100% is the end of the run and fine; a profile may be too short for `100 steps`, and is no evidence."""
    for index, expectation in enumerate(of.spec.expect):
        node, at = of.node("expect", index, "at"), read_length(expectation.at)
        for setup in expansion.setups:
            if setup.name not in conditions_of(of, expectation):
                continue
            steps = setup.train.max_steps
            if of.profile is not None and at.unit == "steps" and at.amount > 0:
                continue
            if at.amount <= 0 or (at.amount > 1 if at.unit == "%" else at.amount > steps):
                bound = setup.train_node.get("max_steps")
                where = "before the first step" if at.amount <= 0 else "beyond the end"
                yield Diagnostic(
                    "E362",
                    f"`at: {expectation.at}` lies {where} of runs of `{setup.name}`",
                    why="no run gets there, so the expectation could never be met or missed",
                    fix="write a place within the run, such as `50%`; `100%` is its end",
                    place=node.place,
                    notes=(Note(bound.place if bound else None, f"{steps} steps"),),
                )


def bounds_decide(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E363."""
    for index, expectation in enumerate(of.spec.expect):
        meaning = metric(expectation.metric)
        word = "above" if expectation.above is not None else "below"
        bound = float(expectation.above if expectation.above is not None else expectation.below or 0.0)
        if meaning is None or not meaning.share or (0 <= bound < 1 if word == "above" else 0 < bound <= 1):
            continue
        never = bound >= 1 if word == "above" else bound <= 0
        yield Diagnostic(
            "E363",
            f"`{expectation.metric}` is a share, so `{word}: {bound:g}` {'never' if never else 'always'} holds",
            why="shares lie between 0 and 1; an expectation that cannot be " + ("met" if never else "missed") + " says nothing",
            fix=f"{word}: 0.5",
            place=of.node("expect", index, word).place,
        )


def expectations_differ(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E366 the same one or the same name twice, E368 two that exclude each other."""
    for (first, one), (second, other) in combinations(enumerate(of.spec.expect), 2):
        node, notes = of.node("expect", second), (Note(of.node("expect", first).place, "the first one"),)
        shared = set(conditions_of(of, one)) & set(conditions_of(of, other))
        alike = bool(shared) and (one.metric, read_length(one.at)) == (other.metric, read_length(other.at))
        if alike and (one.above is None) == (other.above is None):
            yield Diagnostic(
                "E366",
                f"`{one.metric}` at {one.at} is expected twice on the same side",
                why="only the narrower of the two bounds says anything",
                fix="delete one of the two",
                place=node.place,
                notes=notes,
            )
        elif alike and _excluded(one, other):
            yield Diagnostic(
                "E368",
                f"no value of `{one.metric}` at {one.at} meets both expectations",
                why="of two expectations that exclude each other one is missed whatever happens",
                fix="correct a bound, or delete one of the two",
                place=node.place,
                notes=notes,
            )
        elif name_of(one) == name_of(other):
            written = node.get("id")
            yield Diagnostic(
                "E366",
                f"the expectation `{name_of(one)}` is given twice",
                why="findings and pages refer to expectations by their id",
                fix=f"id: {name_of(one)}-2",
                place=written.place if written else node.place,
                notes=notes,
            )


def _excluded(one: Expectation, other: Expectation) -> bool:
    above = one.above if one.above is not None else other.above
    below = one.below if one.below is not None else other.below
    return above is not None and below is not None and above >= below


RULES = (expectations_name_what_exists, places_are_reached, bounds_decide, expectations_differ)
