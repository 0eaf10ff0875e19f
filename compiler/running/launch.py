"""`octavo run`: first what all runs wait for, then the runs side by side, then `dvc repro`, which finds each run in its run cache."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compiler.build.inputs import Inputs
from compiler.build.pipeline import live, named
from compiler.problems import Rejected, problem
from compiler.running import locks
from compiler.running.batch import Batch, claimed, keep
from compiler.running.local import Interrupted, Local
from compiler.running.machines import Machine, settings
from compiler.running.slurm import Slurm, require_no_jobs
from compiler.running.slurm_commands import SlurmMachine
from compiler.running.tasks import Work, due, freeze, missing
from compiler.running.worker import STOPPED
from stages.contracts.artifact import now
from stages.contracts.layout import RUNS


def machine(name: str | None, inputs: Inputs, typed: Sequence[str] = (), wait: bool = False) -> Machine:
    """The named machine, or the default. `typed`: experiments as `octavo run` got them; `wait`: whether it stays until all is done. Raises
    Rejected E501."""
    called, keys = settings(name, inputs)
    return Slurm(called, keys, typed, wait) if isinstance(keys, SlurmMachine) else Local(called, keys)


def batches(work: Work, machine: str) -> list[Batch]:
    """What is due, written for the workers of a machine."""
    common = {"machine": machine, "made": now(), "code": freeze() if any(work.tasks.values()) else ""}
    every = [Batch(experiment=name, tasks=tasks, **common) for name, tasks in work.tasks.items() if tasks]
    for batch in every:
        keep(batch)
    return every


def launch(names: Sequence[str], on: str | None, inputs: Inputs, *, wait: bool = False, goes_on: bool = False) -> int:
    """Exit code: 0 when all is up to date, or jobs will see to it; 1 when runs are missing; that of DVC; 130 when we were stopped.
    `goes_on`: called by a job of the machine's, maybe before the call that submitted it has ended."""
    references = list(dict.fromkeys(map(named, names))) or live(inputs)
    experiments = [reference.name for reference in references]
    place = machine(on, inputs, names, wait)
    with claimed(experiments, waits=goes_on) as busy:
        if busy:
            raise Rejected([problem("E502.busy", name=busy)])
        locks.restore()
        work = due(references, inputs)
        require_no_jobs(experiments)
        place.check(work.tasks)
        work.require_compiled(experiments)
        if work.before:
            if not place.prepare(work.before, experiments, work.on_gpu):
                return 0
            work = due(references, Inputs())
            if work.before:
                raise Rejected([problem("E502.before", folder=next(iter(work.before)), stages=next(iter(work.before.values())))])
        try:
            if not place.submit(batches(work, place.name), experiments, work.on_gpu):
                return 0
        except Interrupted:
            print(f"stopped; octavo run {' '.join(names)} goes on from here", file=sys.stderr)
            return STOPPED
        return finish(names, place)


def finish(names: Sequence[str], place: Machine) -> int:
    """Let DVC do the rest on a machine, of experiments that have all their runs: it would train a missing one, which is named instead."""
    inputs = Inputs()
    references = list(dict.fromkeys(map(named, names))) or live(inputs)
    experiments = [reference.name for reference in references]
    work = due(references, inputs)
    whole = [name for name in experiments if not work.tasks.get(name)]
    absent = missing(experiments, work)
    done = 0
    if whole:
        done = place.finish([f"{RUNS}/{name}/dvc.yaml" for name in whole] if names or absent else [], whole, work.on_gpu)
    if absent:
        print(f"not there: {absent}\n  octavo run {' '.join(names)} tries them again", file=sys.stderr)
    return done or int(bool(absent))
