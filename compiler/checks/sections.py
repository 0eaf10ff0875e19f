"""What is wrong with a spec beyond its shape: one file a subject, each with functions `(experiment, expansion, inputs) -> problems`.
Here: names that must differ, and parents, whose declared changes are the whole difference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from compiler.build.analysis_cards import figure_names
from compiler.build.difference import parent_differences
from compiler.build.inputs import Inputs
from compiler.build.pipeline import everything
from compiler.checks import data, evaluation, interpretation, metrics, outside, rewards, stops, training, trl
from compiler.document.node import Node
from compiler.document.validate import MOST
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.outside import OutsideSpec
from compiler.problems import listed, problem, repeated, unknown
from stages.contracts.diagnostic import Diagnostic


def family(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    yield from names(experiment, expansion, inputs)
    if experiment.parent is None:
        return
    if not any(problem.code.startswith("E2") for problem in expansion.problems):  # values that mean nothing cannot be compared
        # a profile differs from its experiment as it does in the parent
        yield from parent_differences(experiment.proper or experiment, experiment.parent)
    if not experiment.spec.hypothesis.strip():
        yield problem("W308", experiment.node("parent").key, parent=experiment.parent.stem)


def names(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E319 the same name twice, E327 a condition that is named like a run, E368 no such experiment to compare with."""
    spec = experiment.spec
    seeds = [experiment.node("seeds", index) for index in range(len(spec.seeds))]
    claims = [experiment.node("claims", index, "id") for index in range(len(spec.claims))]
    plans = [experiment.node(key, index, "id") for key in ("actions", "contingency") for index in range(len(getattr(spec, key)))]
    for kind, nodes, why in (
        ("the action or plan", plans, "the page names them by their ids"),
        ("the seed", seeds, "two runs would be one"),
        ("the claim", claims, "verdicts are kept by the claim's id"),
        ("the score", list(_scores(experiment)), "evaluations are kept by the score's name"),
    ):
        for name, place, first in repeated((node.value, node.place) for node in nodes):
            yield problem("E319", place, first, kind=kind, name=name, why=why)
    runs = {run.name: run.setup.name for run in expansion.runs}
    for index, name in enumerate(spec.compare):
        others = [reference.stem for reference in everything() if reference.stem != experiment.stem]
        if name not in others:
            yield unknown("E368", name, others, experiment.node("compare", index).place, all=listed(others))
    for name in spec.conditions:
        if name in runs:
            fix = name.replace("-s", "-seed")
            yield problem("E327", experiment.node("conditions", name).key, condition=name, other=runs[name], name=fix)


def remarks(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E214 a remark from beyond the end. Those of the experiment are no words about a shorter profile."""
    most = max((setup.train.max_steps for setup in expansion.setups), default=0)
    for key in ("status", "decision") if experiment.profile is None and expansion.setups else ():
        remark = getattr(experiment.spec, key)
        if remark is not None and remark.step > most:
            yield problem("E214.step", experiment.node(key, "step").place, step=remark.step, most=most)


def leading(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E399 a figure at the head of the page that is not drawn."""
    drawn = figure_names(experiment, expansion)
    for name, node in experiment.entries(experiment.spec.page.lead, "page", "lead"):
        if name not in drawn:
            yield unknown("E399", name, drawn, node.place, all=listed(drawn))


def _scores(experiment: Experiment) -> Iterator[Node]:
    for index in range(len(experiment.spec.evaluation.scores) if experiment.spec.evaluation else 0):
        node = experiment.node("evaluation", "scores", index)
        yield from [node] if isinstance(node.value, str) else (Node(key, inner.key or inner.place) for key, inner in node.items())


CHECKS = (
    *(training.check, training.supervised, trl.check, rewards.check, data.check, evaluation.check, evaluation.claims),
    *(metrics.check, stops.check, interpretation.check, family, leading, remarks),
)
OUTSIDE = (
    *(outside.check, evaluation.health, evaluation.answers, evaluation.claims, metrics.check),
    *(stops.check, interpretation.check, names, leading, remarks),
)
"""Checks that mean something without a model, data and rewards."""


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> list[Diagnostic]:
    """All problems of one experiment. Setups that could not be built are left out: their errors are known already."""
    checks = OUTSIDE if isinstance(experiment.spec, OutsideSpec) else CHECKS
    return [problem for check in checks for problem in islice(check(experiment, expansion, inputs), MOST)]
