"""Rules about actions and contingency plans: the changed spec must compile, change something, and wait for what exists."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.changed import changed
from compiler.build.difference import differences
from compiler.build.inputs import Inputs
from compiler.build.intentions import waits_for
from compiler.build.questions import metrics
from compiler.build.stops import name_of
from compiler.checks import rules
from compiler.document.node import Node
from compiler.language.expand import Expansion, expand
from compiler.language.experiment import Experiment
from compiler.problems import Rejected, errors, listed, nearest, sentence
from stages.contracts.diagnostic import Diagnostic, Note


def check(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Of a spec that is right otherwise. Of a profile nothing: the experiment itself says it."""
    if of.profile is not None:
        return
    for key, count in (("actions", len(of.spec.actions)), ("contingency", len(of.spec.contingency))):
        for index in range(count):
            node = of.node(key, index)
            change = node.get("change")
            if change is not None and change.value:
                yield from _compiles(of, str(node.value["id"].value), change, inputs)
    yield from _moves(of, expansion)
    yield from _waits(of)


def _compiles(of: Experiment, name: str, change: Node, inputs: Inputs) -> Iterator[Diagnostic]:
    try:
        after = changed(of, change)
        expansion = expand(after)
        found = errors([*expansion.problems, *rules.check(after, expansion, inputs)])
    except Rejected as rejected:
        yield from rejected.diagnostics
        return
    direct = [problem for problem in found if problem.code.startswith("E2")]
    yield from direct
    if found and not direct:
        first = found[0]
        yield Diagnostic(
            "E371",
            f"with the change of `{name}` the spec does not compile: {first.code} {first.what}",
            why=f"who takes the plan up copies the change into a child, and must not find it broken; {first.why}",
            fix=first.fix,
            place=change.key or change.place,
            notes=(Note(first.place, "what is wrong then"),) if first.place else (),
        )
    elif not found and not differences(of, after):
        yield Diagnostic(
            "E372",
            f"the change of `{name}` changes nothing",
            why="the spec has these values already, or they change no result: nobody could see whether it was tried",
            fix="write other values than the spec's, or leave `change` out",
            place=change.key or change.place,
        )


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
        kind, name = waits_for(plan.when)
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
