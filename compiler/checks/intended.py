"""Rules about actions and contingency plans: their changes must lead somewhere, and they wait for what exists."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.inputs import Inputs
from compiler.build.questions import metrics
from compiler.build.stops import name_of
from compiler.document.node import Node
from compiler.document.validate import validated
from compiler.language.algorithms import train_settings
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.family import with_changes
from compiler.language.spec import Spec
from compiler.problems import Rejected, listed, nearest, sentence
from stages.contracts.diagnostic import Diagnostic


def check(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Of a spec that is right otherwise. Of a profile nothing: the experiment itself says it."""
    if of.profile is not None:
        return
    for key, count in (("actions", len(of.spec.actions)), ("contingency", len(of.spec.contingency))):
        for index in range(count):
            node = of.node(key, index)
            change = node.get("change")
            if change is not None and change.value:
                yield from _leads_somewhere(of, change)
    yield from _moves(of, expansion)
    yield from _waits(of)


def _leads_somewhere(of: Experiment, change: Node) -> Iterator[Diagnostic]:
    """E338 for keys that lead nowhere, E2xx for values that the language refuses. Whether a spec with the change compiles is seen in
    the child that makes it."""
    kept = {key: node for key, node in of.root.value.items() if key not in ("actions", "contingency", "questions", "profiles")}
    try:
        root = with_changes(Node(kept, of.root.place, of.root.key, of.root.layer), change.value.items())
    except Rejected as rejected:
        yield from rejected.diagnostics
        return
    yield from validated(Spec, root)[1]
    train = root.get("train")
    if train is not None:
        yield from (problem for problem in train_settings(train)[1] if problem.code != "E202")


def _moves(of: Experiment, expansion: Expansion) -> Iterator[Diagnostic]:
    known = metrics(expansion)
    for index, action in enumerate(of.spec.actions):
        for at, move in enumerate(action.expect):
            if move.metric not in known:
                meant = nearest(move.metric, known)
                yield Diagnostic(
                    "E305",
                    f"nothing produces the metric `{sentence(move.metric)}`" + (f", did you mean `{meant}`?" if meant else ""),
                    why="nobody could see whether the action has moved it",
                    fix=f"write `{meant or known[0]}`",
                    place=of.node("actions", index, "expect", at, "metric").place,
                )


def _waits(of: Experiment) -> Iterator[Diagnostic]:
    known = {
        "claim": [claim.id for claim in of.spec.claims],
        "expectation": [name_of(expectation) for expectation in of.spec.expect],
        "red_flag": [f"red_flag-{number}" for number in range(1, len(of.spec.stop.red_flags) + 1)],
    }
    for index, plan in enumerate(of.spec.contingency):
        kind, name = plan.when.waits, plan.when.name
        if name in known[kind]:
            continue
        meant = nearest(name, known[kind])
        use = (meant or known[kind][0]).removeprefix("red_flag-") if known[kind] else ""
        words, written = kind.replace("_", " "), [named.removeprefix("red_flag-") for named in known[kind]]
        yield Diagnostic(
            "E373",
            f"`{plan.id}` waits for the {words} `{name.removeprefix('red_flag-')}`, which does not exist"
            + (f", did you mean `{meant}`?" if meant and kind != "red_flag" else ""),
            why=f"the plan's state is computed from it; known: {listed(written)}",
            fix=f"write `{use}`" if use else f"declare the {words}, or delete the plan",
            place=of.node("contingency", index, "if", kind).place,
        )
