"""`octavo run`: first what all runs wait for, then the runs side by side, then `dvc repro`, which finds each run in its run cache."""

from __future__ import annotations

import contextlib
import fcntl
import sys
from collections.abc import Iterator, Sequence

from compiler.build.inputs import Inputs
from compiler.build.pipeline import live, named
from compiler.problems import Rejected, problem
from compiler.running.batch import JOBS, Batch, keep
from compiler.running.local import Interrupted, Local, repro
from compiler.running.machines import Machine, settings
from compiler.running.tasks import due, freeze, missing
from compiler.running.worker import STOPPED
from stages.contracts.artifact import now
from stages.contracts.files import open_append
from stages.contracts.layout import RUNS

MACHINES: dict[str, type[Machine]] = {"local": Local}
"""Kind -> class. It is made from the name and the keys of the machine."""


def machine(name: str | None, inputs: Inputs) -> Machine:
    """The named machine, or the default. Raises Rejected E501."""
    called, keys = settings(name, inputs)
    return MACHINES[keys.kind](called, keys)  # type: ignore[call-arg]


def launch(names: Sequence[str], on: str | None, inputs: Inputs) -> int:
    """Exit code: 0 when all is up to date, or jobs will see to it; 1 when runs are missing; that of DVC; 130 when we were stopped."""
    references = [named(name) for name in names] or live(inputs)
    experiments = [reference.name for reference in references]
    place = machine(on, inputs)
    with _claimed(experiments):
        work = due(references, inputs)
        place.check([task for each in work.tasks.values() for task in each])
        work.require_compiled(experiments)
        if work.before:
            if not place.prepare(work.before, experiments):
                return 0
            work = due(references, Inputs())
            if work.before:
                raise Rejected([problem("E502.before", folder=next(iter(work.before)), stages=next(iter(work.before.values())))])
        tasks = [task for each in work.tasks.values() for task in each]
        if tasks:
            common = {"machine": place.name, "made": now(), "code": freeze()}
            batches = [Batch(experiment=name, tasks=own, **common) for name, own in work.tasks.items() if own]
            for batch in batches:
                keep(batch)
            try:
                if not place.submit(batches):
                    return 0
            except Interrupted:
                print(f"stopped; octavo run {' '.join(names)} goes on from here", file=sys.stderr)
                return STOPPED
            work = due(references, Inputs())
        whole = [name for name in experiments if not work.tasks.get(name)]
        absent = missing(experiments, work)
        done = 0
        if whole:
            done = repro(targets=[f"{RUNS}/{name}/dvc.yaml" for name in whole] if names or absent else [])
        if absent:
            print(f"not there: {absent}\n  octavo run {' '.join(names)} tries them again", file=sys.stderr)
        return done or int(bool(absent))


@contextlib.contextmanager
def _claimed(experiments: Sequence[str]) -> Iterator[None]:
    """Only one `octavo run` of this machine sees to an experiment. Raises Rejected E502."""
    with contextlib.ExitStack() as stack:
        for name in experiments:
            stream = stack.enter_context(open_append(JOBS / name / "run.lock"))
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Rejected([problem("E502.busy", name=name)]) from None
        yield
