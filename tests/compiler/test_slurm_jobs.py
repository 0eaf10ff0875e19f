"""Ends of a Slurm machine's jobs, with stand-ins for Slurm's commands; tests/e2e/test_slurm.py has a real Slurm."""

import os
import signal

import pytest

from compiler.running import slurm_job
from compiler.running.batch import Batch, Step, Task, WorkerState, keep
from compiler.running.slurm import Part, Submission, interrupted
from stages.contracts.artifact import now, write
from stages.contracts.attempt import Ended
from stages.contracts.layout import RunFolder
from stages.train.attempts import append, begin

RUNS = ("a-s1", "a-s2", "a-s3", "a-s4", "a-s5", "a-s6", "a-s7")


@pytest.fixture
def batch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = [
        Step(stage=f"train-{run}", module="none", arguments=(f"runs/some/{run}",), command="", inputs=(), deps={}, outs=()) for run in RUNS
    ]
    tasks = tuple(Task(run=run, steps=(step,), gpus=0) for run, step in zip(RUNS, steps, strict=True))
    batch = Batch(experiment="some", machine="cluster", made=now(), code="", tasks=tasks)
    keep(batch)
    return batch


def program(folder, name, *lines):
    """A stand-in for one of Slurm's commands."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    os.environ["PATH"] = f"{path.parent}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("says", "why", "is_queued"),
    [
        ("JobState=RUNNING Reason=None Restarts=1", "time limit", True),
        ("JobState=COMPLETING Reason=TimeLimit Restarts=1", "time limit", True),
        ("JobState=COMPLETING Reason=None Restarts=2", "preempted", False),
        ("JobState=COMPLETING Reason=None Restarts=1", "cancelled", False),
    ],
)
def test_a_job_knows_why_it_is_told_to_end(batch, tmp_path, monkeypatch, says, why, is_queued):
    monkeypatch.setenv("PATH", os.environ["PATH"])
    program(tmp_path, "scontrol", f'[ "$1" = requeue ] && echo "$2" > queued || echo "JobId=4713 {says}"')
    for name, value in {"SLURM_JOB_ID": "4713", "SLURM_RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(slurm_job, "_END_SECONDS", 0.0)
    run = RunFolder(tmp_path / "runs/some/a-s1")
    run.root.mkdir(parents=True)

    def stopped(worker):
        started = begin(run, "0" * 16, devices=("cpu",), sandbox="none", resumed_from=2)
        append(run.attempts, Ended(attempt=started.attempt, at=now(), outcome="failed", failure="interrupted", last_step=5, seconds=1.0))
        worker.why = worker.stop_reason()
        return 130

    monkeypatch.setattr(slurm_job.SlurmWorker, "run", stopped)
    before = {number: signal.getsignal(number) for number in slurm_job.HANDLED}
    try:
        assert slurm_job.work(batch.folder / "batch.json", 0) == 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (tmp_path / "queued").exists() == is_queued


def test_what_was_stopped_or_killed_is_sent_again_and_nothing_else(batch, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.environ["PATH"])
    program(tmp_path, "squeue", "echo '7_5|CANCELLED'", "echo '7_6|FAILED'")
    submission = Submission(parts=(Part(job="7", offset=0, tasks=tuple(range(len(RUNS)))),))
    write(batch.folder / "slurm.json", submission)
    begun = {"pid": 1, "created": 0.0, "host": "n1", "began": now(), "step": "train"}
    ends = {"a-s1": (0, ""), "a-s2": (130, "preempted"), "a-s3": (130, "cancelled"), "a-s4": (-9, ""), "a-s5": (-11, "")}
    for run, (code, why) in ends.items():  # of the two others no worker ever began
        write(batch.state(run), WorkerState(**begun, ended=now(), code=code, why=why))
    assert interrupted(["some"]) == {"some": [1, 3, 6]}
