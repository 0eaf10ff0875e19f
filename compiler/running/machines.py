"""Machines that train runs: `specs/machines.yaml`, and what every kind of machine does.

The room in short. `tasks.py` asks the plan what is due: one task a run, with the stages of that run that are due, in their order.
`batch.py` holds the files in which tasks and their states lie: `.cache/jobs/<experiment>/`. `worker.py` does one task, wherever a machine
starts it: `python -m compiler.running.worker <batch.json> <index of the task>`, in the project's root. It writes `<run>.json`
(WorkerState) and `<run>.log` beside the batch, and hands each stage that ends over to DVC's run cache (`handover.py`), so that `dvc repro`
takes it from there. `launch.py` is `octavo run`: first the stages that all runs wait for, then the tasks, then `dvc repro`, which alone
writes dvc.lock. A machine only starts, counts and ends workers:

    check     refuse tasks that this machine can never run, before anything is written
    capacity  how many tasks with that number of GPUs run at once
    prepare   bring stages up to date that runs wait for
    submit    start the tasks of batches, the longest first
    finish    let DVC do the rest: evaluation, analysis, pages
    states    what its queue knows of tasks that have not ended
    cancel    end tasks, or take them out of the queue

`prepare` and `submit` return True when all of it has been done here and now. They return False when jobs will do it without this process:
then a job of theirs goes on. A batch names its machine, so `octavo jobs` and `octavo cancel` ask the right one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from pydantic import Field

from compiler.build.inputs import Inputs
from compiler.build.pipeline import MACHINES
from compiler.document.validate import validated
from compiler.problems import Rejected, problem, unknown
from compiler.running.batch import Batch, Task
from compiler.running.slurm_commands import SlurmMachine
from stages.contracts.artifact import Section

HERE = "local"
DEFAULT = "OCTAVO_ON"
"""Environment variable that names the machine where none is given."""


class LocalMachine(Section):
    """This machine: each run has as many of its GPUs as its spec says, and a run without GPUs has a slot."""

    kind: Literal["local"] = Field("local", description="Runs are processes of this machine.")
    slots: int | None = Field(None, ge=1, le=1024, description="Runs without GPUs side by side; not given: one a core.")


KINDS: dict[str, type[Section]] = {"local": LocalMachine, "slurm": SlurmMachine}
"""Kind -> keys of a machine of that kind in `specs/machines.yaml`. `launch.py` knows which class carries each out."""


class Machine(Protocol):
    """What carries tasks out."""

    name: str
    """In `specs/machines.yaml`."""

    def check(self, work: Mapping[str, Sequence[Task]]) -> None:
        """Raises Rejected when one of the tasks (by experiment) can never run here."""

    def capacity(self, gpus: int) -> int | None:
        """How many tasks with this number of GPUs each run at once; None: unknown."""

    def prepare(self, stages: Mapping[str, Sequence[str]], names: Sequence[str], on_gpu: bool) -> bool:
        """Bring `stages` (folder of a dvc.yaml -> names in it) up to date, before `names` of experiments are run. Raises Rejected E502."""

    def submit(self, batches: Sequence[Batch], names: Sequence[str], on_gpu: bool) -> bool:
        """Start the tasks of batches that are written already; none, when only the rest is to be done for these experiments."""

    def finish(self, targets: Sequence[str], names: Sequence[str], on_gpu: bool) -> int:
        """Exit code of `dvc repro` of these targets, which belong to these experiments."""

    def states(self, batch: Batch) -> Mapping[str, str]:
        """Run -> word of the queue, such as `waiting` or `pending`, for each task that has not ended."""

    def cancel(self, batch: Batch, runs: Sequence[str]) -> None:
        """End these runs in order, or take them out of the queue. Their `cancelled` markers are set already."""


def settings(name: str | None, inputs: Inputs) -> tuple[str, Any]:
    """(name, keys) of the named machine, of that in OCTAVO_ON, or of this one. Raises Rejected."""
    name = name or os.environ.get(DEFAULT) or HERE
    known: dict[str, Any] = {}
    problems = []
    if MACHINES.exists():
        root = inputs.document(MACHINES).root
        if not isinstance(root.value, dict):
            raise Rejected([problem("E203.machines", root.place)])
        for machine, node in root.items():
            kind = node.get("kind")
            word = kind.value if kind is not None else HERE
            if word not in KINDS:
                problems.append(unknown("E501.kind", str(word), KINDS, kind.place if kind else node.place))
                continue
            keys, wrong = validated(KINDS[word], node, machine)
            problems += wrong
            known[machine] = keys
    if problems:
        raise Rejected(problems)
    if name not in known and name != HERE:
        raise Rejected([unknown("E501", name, [HERE, *known], None, file=MACHINES.as_posix())])
    return name, known.get(name) or LocalMachine()
