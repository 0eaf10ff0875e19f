"""`octavo cancel`: end runs that `octavo run` has submitted, in order, or take them out of the queue."""

from __future__ import annotations

import argparse

from compiler.build.inputs import Inputs
from compiler.commands.jobs import submitted, submitted_run
from compiler.running.batch import Batch, batch_file, state
from compiler.running.launch import machine
from stages.contracts.files import write_text


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Each name is that of a run, or of an experiment. What has ended stays as it is. Raises Rejected."""
    for name in options.names:
        if batch_file(name).exists():
            batch = submitted(name)
            runs = [task.run for task in batch.tasks]
        else:
            batch, run = submitted_run(name, "cancel")
            runs = [run]
        ended = [run for run in runs if _has_ended(batch, run)]
        waiting = [run for run in runs if run not in ended]
        for run in waiting:
            write_text(batch.cancelled(run), "")  # before it is asked to end: it may be killed before it can say why
        machine(batch.machine, inputs).cancel(batch, waiting)
        print(f"{batch.experiment}: {len(waiting)} cancelled{f', {len(ended)} had ended' if ended else ''}")
    return 0


def _has_ended(batch: Batch, run: str) -> bool:
    worker = state(batch, run)
    return worker is not None and worker.ended is not None
