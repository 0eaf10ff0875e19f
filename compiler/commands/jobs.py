"""`octavo jobs`: how the runs stand that `octavo run` has submitted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from compiler.build.inputs import Inputs
from compiler.commands.explain import full_name
from compiler.problems import Rejected, problem
from compiler.running.batch import JOBS, Batch, newest
from compiler.running.launch import machine
from compiler.running.show import rows, table
from stages.contracts.artifact import ArtifactError
from stages.contracts.layout import RUNS


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print a table an experiment. Raises Rejected E504."""
    for batch in batches(options.experiments):
        print("\n".join(table(batch.experiment, rows(batch, machine(batch.machine, inputs).states(batch)))))
    return 0


def batches(experiments: Sequence[str]) -> list[Batch]:
    """The newest batch of each experiment; of every one that has some where none is named. Raises Rejected E504."""
    names = [name.removeprefix(f"{RUNS}/").rstrip("/") for name in experiments] or sorted(
        path.parent.name for path in JOBS.glob("*/batch.json")
    )
    return [submitted(name) for name in names]


def submitted(experiment: str) -> Batch:
    """The newest batch of an experiment. Raises Rejected E504 when there is none, or one of another version of octavo."""
    try:
        batch = newest(experiment)
    except ArtifactError as error:
        raise Rejected([problem("E504.old", name=experiment, reason=error.what)]) from None
    if batch is None:
        raise Rejected([problem("E504", name=experiment)])
    return batch


def submitted_run(name: str, command: str) -> tuple[Batch, str]:
    """(batch, run) of a name such as `shaped-s1` or `quickstart/shaped-s1`. Raises Rejected E330 and E504."""
    every = [f"{path.parent.name}/{task.run}" for path in sorted(JOBS.glob("*/batch.json")) for task in submitted(path.parent.name).tasks]
    experiment, _, run = full_name(name, every, command).partition("/")
    return submitted(experiment), run
