"""Rules about stop rules: ones that can be read, can fire, and ask for what the runs measure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_all
from compiler.build.stops import NULL, Rule, rules_of
from compiler.document.node import Node
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.language.history_conditions import Mention, Read, history_condition, never_or_always
from compiler.language.logic import Unreadable
from compiler.language.rewards import within
from compiler.problems import listed, nearest
from stages.contracts.diagnostic import Diagnostic, Note, Place
from stages.contracts.history import metric
from stages.contracts.rule_card import RuleCard

_FIX = {
    "early_stop": "write it below `conditions: <name>: train:` of those that log it",
    "red_flag": "add `conditions: [...]` with those that log it",
    "green_light": "add `conditions: [...]` with those that log it",
}
LISTS = ("red_flags", "green_lights")


def _readable(of: Experiment, expansion: Expansion) -> Iterator[tuple[Setup, Rule, Read]]:
    for setup in expansion.setups:
        for rule in rules_of(of, setup):
            try:
                yield setup, rule, history_condition(rule.when, setup.train.max_steps)
            except Unreadable:
                continue  # E360 says so


def conditions_can_be_read(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E360, of every rule, whether it applies to a condition or not."""
    early = [setup.train_node.get("early_stop", "when") for setup in expansion.setups]
    lists = [
        of.node("stop", key, index, "when") for key in ("red_flags", "green_lights") for index in range(len(getattr(of.spec.stop, key)))
    ]
    for node in [*early, *lists]:
        if node is not None:
            try:
                history_condition(node.value, 100)
            except Unreadable as error:
                yield Diagnostic(error.code, error.what, why=error.why, fix=error.fix, place=_at(of, node, error.start, error.length))


def _at(of: Experiment, node: Node, start: int, length: int) -> Place:
    return within(node.place, node.value, start, length, of.document.lines if node.place.file == of.document.file else [])


def _when(rule: Rule) -> Node:
    node = rule.node.get("when")
    assert node is not None  # the models ask for it
    return node


def metrics_are_logged(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E361."""
    for setup, rule, found in _readable(of, expansion):
        logged = logged_by_all([setup])
        for mention in found.mentions:
            if mention.metric not in logged:
                where = _at(of, _when(rule), mention.start, len(mention.metric))
                yield not_logged(setup, mention.metric, logged, where, _FIX[rule.kind])


def not_logged(setup: Setup, name: str, logged: list[str], place: Place, elsewhere: str) -> Diagnostic:
    """E361 for a metric of a rule or an expectation that a condition's runs do not measure."""
    gate = name.split(".")[1] if name.startswith("gate.") and name.count(".") == 2 else None
    meaning, meant = metric(name), nearest(name, logged)
    if name == "kl":
        why, fix = "kl is logged only when `beta` is above 0", "set `beta: 0.001`, or ask for another metric"
    elif name.startswith("evaluation."):
        why, fix = (
            "the shared evaluation runs after training, so no rule can look at it",
            "make it a claim, or use `gate.<gate>.pass_share`",
        )
    elif meaning is not None and gate is not None:
        why, fix = f"the reward of `{setup.name}`, {setup.reward.name}, has no gate `{gate}`", elsewhere
    else:
        why, fix = f"known: {listed(logged)}", f"write `{meant}`" if meant else f"write a metric such as `{logged[0]}`"
    said = f"runs of `{setup.name}` do not log `{name[:80]}`" + (f", did you mean `{meant}`?" if meant and meaning is None else "")
    return Diagnostic("E361", said, why=why, fix=fix, place=place)


def rules_can_fire(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E362. A profile may be too short for its rules; it is no evidence."""
    if of.profile is not None:
        return
    for setup, rule, _ in _readable(of, expansion):
        steps = setup.train.max_steps
        earliest, lasting = rule.earliest(steps), rule.node.get("for")
        if rule.lasting is not None and rule.lasting.amount == 0 and lasting is not None:
            why, fix = "every condition holds on none at all: the rule would fire at once", "write `for: 1 step`, or delete `for`"
            yield Diagnostic("E362", f"`for: {lasting.value}` lasts no step", why=why, fix=fix, place=lasting.place)
            continue
        if rule.kind == "green_light" or earliest < steps:
            continue
        written = [node for key in ("for", "after") if (node := rule.node.get(key)) is not None]
        parts = [f"`{key}: {node.value}`" for key in ("after", "for") if (node := rule.node.get(key)) is not None]
        says = f"{' with '.join(parts)} is step {earliest} at the earliest" if parts else f"its first whole window ends at step {earliest}"
        bound = setup.train_node.get("max_steps")
        yield Diagnostic(
            "E362",
            f"{says}, and runs of `{setup.name}` have {steps} steps",
            why="at or after the end nothing is left to stop: a dead rule looks like a tested one",
            fix="let it look earlier, such as `after: 50%`" if rule.kind == "red_flag" else "write a shorter `for`, or delete the rule",
            place=written[0].place if written else _when(rule).place,
            notes=(Note(bound.place if bound else None, f"{steps} steps"),),
        )


def comparisons_decide(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E363 one comparison, E365 a whole condition that is the same whatever happens; W360 equality with a continuous number."""
    for _, rule, found in _readable(of, expansion):
        node, fixed = _when(rule), [mention for mention in found.mentions if never_or_always(mention.leaf) is not None]
        for mention in fixed:
            yield _fixed(of, node, mention)
        always = never_or_always(found.when)
        if always is not None and not fixed:
            yield Diagnostic(
                "E365",
                f"this condition {'always' if always else 'never'} holds",
                why="whatever is measured, its comparisons give the same: a dead rule looks like a tested one",
                fix="correct a comparison, or delete the rule",
                place=node.place,
            )
        for mention in found.mentions:
            if mention not in fixed and metric(mention.metric) is not None and _continuous(mention):
                yield Diagnostic(
                    "W360",
                    f"`{mention.metric}` is almost never exactly {mention.leaf.value:g}",
                    why="the metric is continuous: equality says next to nothing about it",
                    fix=f"compare with `{mention.metric} <= {mention.leaf.value:g}` or `>=`",
                    place=_at(of, node, mention.begins, mention.ends - mention.begins),
                    severity="warning",
                )


def _fixed(of: Experiment, node: Node, mention: Mention) -> Diagnostic:
    always = never_or_always(mention.leaf)
    return Diagnostic(
        "E363",
        f"`{mention.metric}` is a share, so this {'always' if always else 'never'} holds",
        why="shares lie between 0 and 1; a comparison that decides nothing hides a mistake",
        fix="compare with a number between 0 and 1, such as `30%`",
        place=_at(of, node, mention.begins, mention.ends - mention.begins),
    )


def _continuous(mention: Mention) -> bool:
    """0 is met exactly by everything that can vanish, 1 by shares."""
    meaning, leaf = metric(mention.metric), mention.leaf
    whole = {0.0, 1.0} if meaning is not None and (meaning.share or meaning.unit == "count") and leaf.slope is None else {0.0}
    return leaf.sign in ("==", "!=") and leaf.value not in whole


def null_controls_have_no_rules(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E364 a rule for a null control, E302 one for a condition that does not exist."""
    for name, condition in of.spec.conditions.items():
        written = of.root.get("conditions", name, "train", "early_stop")
        if condition.role == NULL and written is not None:
            yield _null(name, written.key or written.place, "delete it here: an experiment's own `early_stop` leaves null controls alone")
    for key in LISTS:
        for index, rule in enumerate(getattr(of.spec.stop, key)):
            for place, name in enumerate(rule.conditions):
                node = of.node("stop", key, index, "conditions", place)
                if name not in of.spec.conditions:
                    yield no_condition(of, name, node)
                elif of.spec.conditions[name].role == NULL:
                    yield _null(name, node.place, f"delete `{name}` from the list")


def _null(name: str, place: Place, fix: str) -> Diagnostic:
    why = "a null control has no signal by design and must run to its end: its movement is the noise floor of every contrast"
    return Diagnostic("E364", f"a stop rule for the null control `{name}`", why=why, fix=fix, place=place)


def no_condition(of: Experiment, name: str, node: Node) -> Diagnostic:
    """E302 for a list of conditions."""
    meant = nearest(name, of.spec.conditions)
    return Diagnostic(
        "E302",
        f"no condition `{name}`" + (f", did you mean `{meant}`?" if meant else ""),
        why=f"the list names conditions of this spec: {listed(of.spec.conditions)}",
        fix=f"write `{meant or next(iter(of.spec.conditions))}`",
        place=node.place,
    )


def rules_differ(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E366 the same rule twice, E367 a green light that can hold nothing back, or that is on whenever its red flag is."""
    by_setup: dict[str, list[tuple[Rule, RuleCard]]] = {}
    for setup, rule, _ in _readable(of, expansion):
        by_setup.setdefault(setup.name, []).append((rule, rule.card(setup.train.max_steps)))
    for found in by_setup.values():
        for (one, card), (other, again) in combinations(found, 2):
            if card.when != again.when or "early_stop" in (one.kind, other.kind):
                continue
            notes = (Note(_when(one).place, "the first one"),)
            if one.kind == other.kind and (card.after, card.lasting) == (again.after, again.lasting):
                why, fix = "rules are counted by themselves; the second one changes nothing", "delete one of the two"
                yield Diagnostic("E366", "the same rule is given twice", why=why, fix=fix, place=_when(other).place, notes=notes)
            elif one.kind != other.kind:
                what = "this green light is on whenever the red flag with its condition is"
                why = "the red flag could never stop a run: the two rules contradict each other"
                yield Diagnostic("E367", what, why=why, fix="delete one of the two", place=_when(other).place, notes=notes)
    if of.spec.stop.green_lights and not of.spec.stop.red_flags:
        yield Diagnostic(
            "E367",
            "a green light without any red flag",
            why="a green light holds red flags back; without one it does nothing (it does not hold back `early_stop`)",
            fix="add `red_flags: [{when: ...}]`, or delete it",
            place=of.node("stop", "green_lights", 0).place,
        )


RULES = (
    conditions_can_be_read,
    metrics_are_logged,
    rules_can_fire,
    comparisons_decide,
    null_controls_have_no_rules,
    rules_differ,
)
