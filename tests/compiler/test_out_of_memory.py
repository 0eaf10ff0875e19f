"""A worker whose stage the kernel kills for lack of memory. The counters of the kernel are files of the test."""

import signal

import pytest

from compiler.running import memory
from compiler.running.batch import Batch, Step, Task, state
from compiler.running.worker import HANDLED, Worker
from stages.contracts.artifact import now, write
from stages.contracts.attempt import read_attempts
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.retries import HalveMicrobatch, Retries
from stages.train.attempts import begin

KILLED = """\
import os, signal
open("memory/job/memory.events", "w").write("low 0\\noom 1\\noom_kill 1\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("retries", "code"), [(True, 137), (False, 1)], ids=["and again", "and no more"])
def test_an_attempt_that_the_kernel_killed_has_an_end_in_the_ledger(tmp_path, monkeypatch, retries, code):
    monkeypatch.chdir(tmp_path)
    for path, content in {"memory/job/memory.events": "oom_kill 0\n", "own": "0::/job\n", "code/killed.py": KILLED}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    monkeypatch.setattr(memory, "_OWN", tmp_path / "own")
    monkeypatch.setattr(memory, "_ROOT", tmp_path / "memory")
    run = RunFolder(tmp_path / "runs/some/a-s1")
    run.root.mkdir(parents=True)
    if retries:
        write(ExperimentFolder(run.root.parent).retries, Retries(out_of_memory=HalveMicrobatch(microbatch="halve")))
    begin(run, "0" * 16, devices=("cpu",), sandbox="none", resumed_from=7)
    step = Step(stage="train-a-s1", module="killed", arguments=(str(run.root),), command="", inputs=(), deps={}, outs=())
    task = Task(run="a-s1", steps=(step,), gpus=0)
    batch = Batch(experiment="some", machine="local", made=now(), code=str(tmp_path / "code"), tasks=(task,))
    batch.folder.mkdir(parents=True)
    before = {number: signal.getsignal(number) for number in HANDLED}
    try:
        assert Worker(batch, task).run() == code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    (attempt,) = read_attempts(run.attempts)
    assert attempt.ended is not None and (attempt.ended.failure, attempt.ended.last_step) == ("out_of_memory", 7)
    assert state(batch, "a-s1").why == "out of memory"
