"""`num_train_epochs` -> `max_steps`, where the number of training prompts is known."""

from __future__ import annotations

from dataclasses import replace

from compiler.build.inputs import Inputs
from compiler.document.node import Node
from compiler.document.validate import place_of
from compiler.language.expand import Expansion, Setup, expand, runs_of
from compiler.language.experiment import Experiment
from compiler.problems import Fault, problem
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.training import TrlSettings


def expanded(experiment: Experiment, inputs: Inputs) -> Expansion:
    """`expand`, with the steps of conditions that say how often they pass over their prompts."""
    expansion = expand(experiment)
    if not any(_epochs(setup) for setup in expansion.setups):
        return expansion
    problems = list(expansion.problems)
    setups = tuple(_with_steps(setup, experiment, inputs, problems) for setup in expansion.setups)
    runs = runs_of(experiment, setups, []) if expansion.runs else ()
    return replace(expansion, setups=setups, runs=runs, problems=problems)


def _epochs(setup: Setup) -> float | None:
    """Passes over the prompts, where these say how many steps there are: as in TRL, `max_steps` wins."""
    steps, epochs = setup.train_node.get("max_steps"), setup.train_node.get("num_train_epochs")
    return setup.train.num_train_epochs if isinstance(setup.train, TrlSettings) and steps is None and epochs is not None else None


def _with_steps(setup: Setup, experiment: Experiment, inputs: Inputs, problems: list[Diagnostic]) -> Setup:
    """The setup with its steps; E256 when the rows of a dataset of the hub are not counted."""
    epochs, written, data = _epochs(setup), setup.train_node.get("num_train_epochs"), setup.data
    if epochs is None or written is None or not isinstance(setup.train, TrlSettings):
        return setup
    try:
        rows = min(len(inputs.data(data.path).rows), data.rows or 2**31) if data.path is not None else data.rows
    except Fault:  # a check says it
        return setup
    if rows is None:
        problems.append(problem("E256", written.key or written.place, place_of(setup.data_node, "hub"), data=data.name))
        return setup
    steps = setup.train.steps(epochs, rows, max(1, experiment.spec.resources.gpus))
    node = Node({**setup.train_node.value, "max_steps": Node(steps, written.place, written.key, written.layer)}, setup.train_node.place)
    return replace(setup, train=setup.train.model_copy(update={"max_steps": steps}), train_node=node)
