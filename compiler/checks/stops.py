"""Checks of stop rules and expectations: ones that can be read, can fire or be missed, and ask for what the runs measure."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_all
from compiler.build.stops import NULL, WrittenRule, conditions_of, rules_of
from compiler.document.node import Node
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.language.expressions import Unreadable, characters, is_decided, stop_condition, written_comparisons
from compiler.problems import problem, repeated, unknown
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.expressions import Comparison, Expression
from stages.contracts.formulas import logged_inputs
from stages.contracts.history import metric
from stages.contracts.stops import Expectation, read_length

LISTS = ("red_flags", "green_lights")


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    yield from _unreadable(experiment, expansion)
    for setup in expansion.setups:
        for rule in rules_of(experiment, setup):
            try:
                read = stop_condition(rule.written.when, setup.train.max_steps)
            except Unreadable:
                continue  # E360 says so
            yield from _rule(experiment, setup, rule, read)
            if experiment.is_evidence:  # a small profile may be too short for its rules
                yield from _can_fire(setup, rule)
    yield from _null_controls(experiment)
    expected = list(experiment.entries(experiment.spec.expect, "expect"))
    names = ((expectation.name, (node.get("id") or node).place) for expectation, node in expected)
    for name, place, first in repeated(names):
        why = "findings and pages refer to expectations by their id"
        yield problem("E319", place, first, kind="the expectation", name=name, why=why)
    for expectation, node in expected:
        yield from _expectation(expectation, node, experiment, expansion)


def _unreadable(experiment: Experiment, expansion: Expansion) -> Iterator[Diagnostic]:
    """E360, of every rule, whether it applies to a condition or not."""
    texts = [setup.train_node.get("early_stop", "when") for setup in expansion.setups]
    texts += [experiment.node("stop", key, index, "when") for key in LISTS for index in range(len(getattr(experiment.spec.stop, key)))]
    for node in texts:
        if node is not None:
            try:
                stop_condition(node.value, 100)
            except Unreadable as error:
                yield error.at(node, experiment.document)


def _when(rule: WrittenRule) -> Node:
    node = rule.node.get("when")
    assert node is not None  # the models ask for it
    return node


def _rule(experiment: Experiment, setup: Setup, rule: WrittenRule, read: Expression) -> Iterator[Diagnostic]:
    """E361 metrics that are not logged, E363 a comparison that decides nothing, W360 equality with a continuous number."""
    node, logged = _when(rule), [name for name in logged_by_all([setup]) if name not in setup.derived]
    elsewhere = "write it below `conditions: <name>: train:`" if rule.id == "early_stop" else "add `conditions: [...]`"
    for leaf, text in written_comparisons(node.value, read):
        place = characters(node, text.start("leaf"), len(text["leaf"]), experiment.document)
        meaning = metric(leaf.metric)
        holds = is_decided(leaf) if meaning is not None and meaning.share and leaf.slope is None else None
        if leaf.metric not in logged:
            where = characters(node, text.start("metric"), len(leaf.metric), experiment.document)
            fix = elsewhere + (" of those that log it" if rule.id == "early_stop" else " with those that log it")
            yield _not_logged(setup, leaf.metric, logged, where, fix)
        if holds is not None:
            yield problem("E363", place, metric=leaf.metric, always="always" if holds else "never")
        elif meaning is not None and _is_continuous(leaf):
            yield problem("W360", place, metric=leaf.metric, value=leaf.value)


def _is_continuous(leaf: Comparison) -> bool:
    """Whether equality is chance: 0 is met exactly by everything that can vanish, 1 by shares and counts."""
    meaning = metric(leaf.metric)
    whole = {0.0, 1.0} if meaning is not None and (meaning.share or meaning.unit == "count") and leaf.slope is None else {0.0}
    return leaf.sign in ("==", "!=") and leaf.value not in whole


def _not_logged(setup: Setup, name: str, logged: list[str], place: Place, elsewhere: str) -> Diagnostic:
    """E361 for a metric of a rule or an expectation that a condition's runs do not measure."""
    if name in setup.derived and name not in logged:
        inputs = sorted(logged_inputs(name, setup.derived))
        return problem("E361.derived", place, None, condition=setup.name, word=name, inputs=inputs, first=inputs[0])
    if name == "kl" or name.startswith("evaluation."):
        return problem("E361.kl" if name == "kl" else "E361.evaluation", place, None, condition=setup.name, word=name[:80])
    if metric(name) is not None:
        return problem("E361.known", place, None, condition=setup.name, word=name, logged=logged, elsewhere=elsewhere)
    return unknown("E361", name, logged, place, condition=setup.name)


def _can_fire(setup: Setup, rule: WrittenRule) -> Iterator[Diagnostic]:
    """E362."""
    steps, lasting = setup.train.max_steps, rule.node.get("for")
    if lasting is not None and read_length(lasting.value).amount == 0:
        yield problem("E362.none", lasting.place, length=lasting.value)
        return
    earliest = rule.resolved(steps).earliest
    if rule.is_light or earliest < steps:
        return
    written = {key: node for key in ("after", "for") if (node := rule.node.get(key)) is not None}
    bound, place = setup.train_node.get("max_steps"), (written.get("for") or written.get("after") or _when(rule)).place
    facts = {"when": " with ".join(f"`{key}: {node.value}`" for key, node in written.items()), "condition": setup.name, "steps": steps}
    fix = "let it look earlier, such as `after: 50%`" if rule.id.startswith("red_flag") else "write a shorter `for`, or delete the rule"
    yield problem("E362" if written else "E362.window", place, bound.place if bound else None, **facts, earliest=earliest, fix=fix)


def _null_controls(experiment: Experiment) -> Iterator[Diagnostic]:
    """E364 a rule for a null control, E302 one for a condition that does not exist."""
    conditions = experiment.spec.conditions
    for name, condition in conditions.items():
        written = experiment.root.get("conditions", name, "train", "early_stop")
        if condition.role == NULL and written is not None:
            yield problem("E364.early", written.key or written.place, condition=name)
    for key in LISTS:
        for index, rule in enumerate(getattr(experiment.spec.stop, key)):
            for name, node in experiment.entries(rule.conditions, "stop", key, index, "conditions"):
                if name not in conditions:
                    yield unknown("E302", name, conditions, node.place)
                elif conditions[name].role == NULL:
                    yield problem("E364", node.place, condition=name)


def _expectation(expectation: Expectation, node: Node, experiment: Experiment, expansion: Expansion) -> Iterator[Diagnostic]:
    """E302 and E369 conditions, E361 a metric, E362 a place, E363 a bound."""
    conditions, names = experiment.spec.conditions, conditions_of(experiment, expectation)
    for position, name in enumerate(expectation.conditions):
        if name not in conditions:
            yield unknown("E302", name, conditions, node.value["conditions"].value[position].place)
    if not names:
        yield problem("E369", node.place, first=next(iter(conditions)))
    setups = [setup for setup in expansion.setups if setup.name in names]
    for setup in setups:
        if expectation.metric not in (logged := logged_by_all([setup])):
            elsewhere = "add `conditions: [...]` with those that log it"
            yield _not_logged(setup, expectation.metric, logged, node.value["metric"].place, elsewhere)
            break
    for setup in setups:
        yield from _place_is_reached(expectation, node.value["at"], setup, experiment)
    yield from _bound(expectation, node)


def _place_is_reached(expectation: Expectation, node: Node, setup: Setup, experiment: Experiment) -> Iterator[Diagnostic]:
    """E362. 100% is the end of the run and fine; a profile may be too short for `100 steps`, and is no evidence."""
    at, steps = read_length(expectation.at), setup.train.max_steps
    if not experiment.is_evidence and at.unit == "steps" and at.amount > 0:
        return
    if at.amount <= 0 or at.amount > (1 if at.unit == "%" else steps):
        bound = setup.train_node.get("max_steps")
        where = "before the first step" if at.amount <= 0 else "beyond the end"
        place = bound.place if bound else None
        yield problem("E362.at", node.place, place, at=expectation.at, where=where, condition=setup.name, steps=steps)


def _bound(expectation: Expectation, node: Node) -> Iterator[Diagnostic]:
    """E363."""
    name, meaning = expectation.metric, metric(expectation.metric)
    for side, sign in (("above", ">"), ("below", "<")) if meaning is not None and meaning.share else ():
        bound = getattr(expectation, side)
        holds = None if bound is None else is_decided(Comparison(metric=name, sign=sign, value=bound))
        if holds is not None:
            always, missed = ("always", "missed") if holds else ("never", "met")
            facts = {"metric": name, "side": side, "bound": bound}
            yield problem("E363.expectation", node.value[side].place, None, always=always, missed=missed, **facts)
