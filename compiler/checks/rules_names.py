"""Rules about names that must differ."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.inputs import Inputs
from compiler.document.node import Node
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from stages.contracts.diagnostic import Diagnostic, Note


def names_are_used_once(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Seeds, claims, scores; and no condition is named like a run."""
    seeds = [of.node("seeds", index) for index in range(len(of.spec.seeds))]
    claims = [of.node("claims", index, "id") for index in range(len(of.spec.claims))]
    plans = [of.node(key, index, "id") for key in ("actions", "contingency") for index in range(len(getattr(of.spec, key)))]
    yield from _repeated("the action or plan", plans, "the page names them by their ids")
    yield from _repeated("the seed", seeds, "two runs would be one")
    yield from _repeated("the claim", claims, "verdicts are kept by the claim's id")
    yield from _repeated("the score", list(_score_names(of)), "evaluations are kept by the score's name")
    runs = {run.name: run.setup.name for run in expansion.runs}
    for name in of.spec.conditions:
        if name in runs:
            yield Diagnostic(
                "E327",
                f"the condition `{name}` is named like a run of `{runs[name]}`",
                why="findings name conditions and runs; one name for both could not be told apart",
                fix=f"write `{name.replace('-s', '-seed')}`",
                place=of.node("conditions", name).key,
            )


def _score_names(of: Experiment) -> Iterator[Node]:
    for index in range(len(of.spec.evaluation.scores) if of.spec.evaluation else 0):
        node = of.node("evaluation", "scores", index)
        yield from [node] if isinstance(node.value, str) else (Node(key, inner.key or inner.place) for key, inner in node.items())


def _repeated(what: str, nodes: list[Node], why: str) -> Iterator[Diagnostic]:
    first: dict[object, Node] = {}
    for node in nodes:
        if node.value in first:
            yield Diagnostic(
                "E319",
                f"{what} `{node.value}` is given twice",
                why=why,
                fix="delete one of them",
                place=node.place,
                notes=(Note(first[node.value].place, "the first one"),),
            )
        first.setdefault(node.value, node)


RULES = (names_are_used_once,)
