"""What the jobs of a Slurm machine run, in the project's root: `python -m compiler.running.slurm_job`

worker <batch.json> <task>         one task; at its time limit it puts itself back into the queue
after <turn> <machine> <names>     sends runs again that were stopped or killed, else lets `dvc repro` do the rest
run <machine> <names>              octavo run, from the job that made what runs wait for
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.pipeline import live, named
from compiler.problems import Rejected
from compiler.render import render
from compiler.running.batch import Batch, state
from compiler.running.launch import finish, launch, machine
from compiler.running.slurm import TURNS, Slurm, interrupted
from compiler.running.slurm_commands import ask, facts
from compiler.running.tasks import due
from compiler.running.worker import HANDLED, Worker
from stages.contracts.artifact import read, write
from stages.contracts.attempt import read_attempts

RESTARTS = 20
"""Most times that a job puts itself back into the queue."""
_END_SECONDS = 60.0


class SlurmWorker(Worker):
    """A worker that knows why Slurm tells it to end."""

    def stop_reason(self) -> str:
        """Slurm calls a job running (or SIGNALING) at the signal before its time limit, and has counted one restart more when it preempts
        it, for it puts the job back itself. Else somebody cancelled it."""
        if super().stop_reason() == "cancelled":
            return "cancelled"
        known = facts(os.environ["SLURM_JOB_ID"])
        if known.get("JobState") in ("RUNNING", "SIGNALING") or known.get("Reason") == "TimeLimit":
            return "time limit"
        return "preempted" if int(known.get("Restarts") or 0) > restarts() else "cancelled"

    def has_moved(self) -> bool:
        """Whether the newest attempt got beyond the step that it began with: else the next job would get as far."""
        attempts = read_attempts(Path(self.task.steps[0].arguments[0]) / "attempts.jsonl")
        newest_attempt = attempts[-1] if attempts else None
        end = newest_attempt.ended if newest_attempt else None
        return newest_attempt is not None and end is not None and end.last_step > (newest_attempt.started.resumed_from or 0)


def restarts() -> int:
    """How often Slurm has started this job before."""
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0)


def work(batch: Path, index: int) -> int:
    """Exit code of the task."""
    loaded = read(Batch, batch)
    worker = SlurmWorker(loaded, loaded.tasks[index])
    code = worker.run()
    requeues = worker.why == "time limit" and restarts() < RESTARTS and worker.has_moved()
    if code and (requeues or worker.why == "preempted"):
        run = worker.task.run
        if (stands := state(loaded, run)) is not None:
            write(loaded.state(run), stands.model_copy(update={"ended": None}))  # the job is in the queue again
    if code and requeues:
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        ask("scontrol", "requeue", os.environ["SLURM_JOB_ID"])
        time.sleep(_END_SECONDS)  # Slurm ends us; where it does not requeue, the job after the runs sends the run again
    return code


def after(turn: int, on: str, names: list[str]) -> int:
    """Exit code of `octavo run` where nothing is sent again."""
    inputs = Inputs()
    place = machine(on, inputs, names)
    assert isinstance(place, Slurm)
    references = [named(name) for name in names] or live(inputs)
    experiments = [reference.name for reference in references]
    again = interrupted(experiments)
    if again and turn < TURNS:
        place.send(again, experiments, due(references, inputs).on_gpu, turn + 1)
        return 0
    return finish(names, place)


def main() -> int:
    """One of the three; messages go to the job's own file."""
    word, *rest = sys.argv[1:]
    try:
        if word == "worker":
            return work(Path(rest[0]), int(rest[1]))
        if word == "after":
            return after(int(rest[0]), rest[1], rest[2:])
        return launch(rest[1:], rest[0], Inputs(), goes_on=True)
    except Rejected as rejected:
        print(render(rejected.diagnostics, rejected.sources), file=sys.stderr, end="")
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
