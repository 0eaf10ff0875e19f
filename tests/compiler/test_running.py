"""The room of `octavo run` without a run: slots, schedule, DVC's lock of files, and what the table says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.fs import localfs
from dvc.lock import LockError
from dvc.rwlock import rwlock

from compiler.problems import Rejected
from compiler.running import busy, locks, slots
from compiler.running.batch import Batch, Step, Task, WorkerState, keep
from compiler.running.schedule import longest_first, makespan
from compiler.running.show import Row, rows, seconds_left, table
from compiler.running.worker import end_with
from stages.contracts.artifact import write


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(slots.FOLDER, str(tmp_path / "slots"))
    return tmp_path


def test_a_slot_has_one_run_at_a_time_and_is_free_when_its_processes_have_ended():
    every = slots.places(3)
    two = slots.take(every, 2)
    assert [lease.slot.name for lease in two] == ["cpu-0", "cpu-1"]
    assert slots.take(every, 2) == [], "none is kept while others are missing"
    run = subprocess.Popen(["sleep", "600"], pass_fds=[two[0].descriptor])
    for lease in two:
        lease.give_back()
    assert [lease.slot.name for lease in slots.take(every, 2)] == ["cpu-1", "cpu-2"], "the run has the first one"
    run.kill()
    run.wait()
    assert [lease.slot.name for lease in slots.take(every, 1)] == ["cpu-0"]


def test_gpus_are_those_that_this_process_may_use(tmp_path, monkeypatch):
    tool = tmp_path / "bin/nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho '0, GPU-aa'\necho '1, GPU-bb'\necho '2, GPU-cc'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [(slot.device, slot.name) for slot in slots.gpus()] == [("0", "gpu-GPU-aa"), ("1", "gpu-GPU-bb"), ("2", "gpu-GPU-cc")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-aa")
    assert [(slot.device, slot.name) for slot in slots.gpus()] == [("2", "gpu-GPU-cc"), ("GPU-aa", "gpu-GPU-aa")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert slots.gpus() == []


def test_runs_with_several_threads_need_several_cores(monkeypatch):
    monkeypatch.setattr(slots, "cores", lambda: 8)
    monkeypatch.setattr(slots, "memory", lambda: 64 * 10**9)
    monkeypatch.delenv(slots.THREADS, raising=False)
    assert len(slots.places(None)) == 8
    monkeypatch.setenv(slots.THREADS, "3")
    assert len(slots.places(None)) == 2 and len(slots.places(5)) == 5
    monkeypatch.setattr(slots, "memory", lambda: 2 * 10**9)
    assert len(slots.places(None)) == 1


def test_locks_of_slots_lie_in_a_folder_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "slots").symlink_to("elsewhere")
    with pytest.raises(Rejected) as refused:
        slots.take(slots.places(1), 1)
    assert refused.value.diagnostics[0].code == "E502" and "no folder of yours" in refused.value.diagnostics[0].what


def test_the_longest_begin_first_and_the_makespan_is_theirs():
    assert longest_first([(1.0, 1), (None, 1), (3.0, 1), (2.0, 2)]) == [3, 2, 0, 1]
    assert makespan([3, 3, 2, 2, 2], 2) == 7
    assert makespan([1.0], 4) == 1.0 and makespan([], 2) == 0.0
    assert makespan([5.0], 2, busy=[1.0, 4.0]) == 6.0


def test_dvc_and_a_worker_hold_files_against_each_other(tmp_path):
    outs, other = ["runs/few/a-s1/adapter", "runs/few/a-s1/outcome.json"], tmp_path / "runs/few/a-s1"
    (tmp_path / ".dvc/tmp").mkdir(parents=True)

    def as_dvc(read: list[str], write: list[str]):
        return rwlock(str(tmp_path / ".dvc/tmp"), localfs, "dvc repro", read, write, False)

    assert busy.take(outs, "octavo run: train")
    child = "import sys; sys.path.insert(0, sys.argv[1]); from compiler.running import busy; print(busy.take(['runs/few/a-s1'], 'x'))"
    assert subprocess.check_output([sys.executable, "-c", child, str(Path(__file__).parents[2])], text=True) == "False\n"
    with pytest.raises(LockError, match=r"octavo run: train"), as_dvc([str(other / "adapter/weights")], []):
        pass
    with as_dvc([], [str(tmp_path / "runs/few/b-s1/outcome.json")]):
        busy.give_back(outs)
    with as_dvc([], [str(other / "outcome.json")]):
        assert json.loads(busy.RWLOCK.read_text())["write"], "an entry of this process; for another one it is busy"
    busy.RWLOCK.write_text("")  # as a killed DVC leaves it
    busy.repair()
    with as_dvc([], [str(other)]):
        pass


def batch(*names: str) -> Batch:
    """A batch of runs, written."""
    step = {"module": "stages.train.trl", "command": "x", "inputs": (), "deps": {}, "outs": ()}
    tasks = tuple(Task(run=name, steps=(Step(stage=f"train-{name}", arguments=(f"runs/x/{name}",), **step),), gpus=0) for name in names)
    submitted = Batch(experiment="x", machine="local", made="2026-01-01T00:00:00Z", code="", tasks=tasks)
    keep(submitted)
    return submitted


def begin(submitted: Batch, run: str, **differing: object) -> None:
    values = {"pid": os.getpid(), "created": 0.0, "host": "other", "began": "2026-01-01T00:00:00Z", "step": f"train-{run}", "devices": "3"}
    write(submitted.state(run), WorkerState(**{**values, **differing}))


def test_the_table_says_how_each_run_stands(tmp_path):
    submitted = batch("trains-s1", "ended-s1", "failed-s1", "gone-s1", "stopped-s1", "waits-s1", "never-s1")
    begin(submitted, "trains-s1", job="4711_0")
    for run in ("ended-s1", "failed-s1"):
        begin(submitted, run, ended="2026-01-01T01:00:00Z", code=0)
        (tmp_path / "runs/x" / run).mkdir(parents=True)
    (tmp_path / "runs/x/ended-s1/outcome.json").write_text('{"finished": true, "steps_done": 9, "target_steps": 9}')
    (tmp_path / "runs/x/failed-s1/outcome.json").write_text('{"finished": false, "failure": "nonfinite\\u001b"}')
    (tmp_path / "runs/x/failed-s1/attempts.jsonl").write_text('{"event":"started"}\n{"event":"ended"}\n{"event":"started"}\n')
    begin(submitted, "gone-s1")
    begin(submitted, "stopped-s1", ended="2026-01-01T01:00:00Z", code=130, why="stopped")
    old = {"progress": "x", "attempt": 1, "step": 90, "steps": 100, "reward": 0.9, "seconds_left": 1.0}
    new = {**old, "attempt": 2, "step": 25, "reward": 0.514, "seconds_left": 75.0}
    submitted.log("trains-s1").write_text(f"{json.dumps(old)}\n== train-trains-s1, now\nwords\n{json.dumps(new)}\n{{'torn")
    shown = rows(submitted, {"trains-s1": "running", "waits-s1": "waiting"})
    assert [row.state for row in shown] == [
        "trains",
        "finished",
        "failed: nonfinite\\x1b",
        "was killed",
        "stopped",
        "waiting",
        "was not begun",
    ]
    assert shown[0] == Row("trains-s1", "trains", 25, 100, 0.514, 75.0, "4711_0 other 3", 2) and shown[2].attempt == 2
    assert (shown[1].step, shown[1].steps) == (9, 9), "of its outcome, where no progress was printed"
    lines = table("x", shown)
    assert lines[0].startswith("x: 1 trains, 1 finished, 1 failed, 1 was killed") and lines[0].endswith("; about 0:02:55 left")
    assert lines[2].split() == ["trains-s1", "trains", "25/100", "0.51", "0:01:15", "4711_0", "other", "3", "2"]
    assert [line.split()[0] for line in table("x", shown, most=1)[2:]] == ["trains-s1", "and"]
    submitted.log("trains-s1").write_text(f"{json.dumps(old)}\n== train-trains-s1, now\n")
    assert rows(submitted, {})[0].step is None, "steps of the attempt before are not its own"


def test_what_waits_takes_as_long_as_what_goes_on():
    half = Row("a-s1", "trains", 50, 100, None, 30.0)
    assert seconds_left([half, Row("b-s1", "waiting"), Row("c-s1", "waiting")]) == 30 + 60 + 60
    assert seconds_left([half, half, Row("c-s1", "waiting")]) == 90.0
    assert seconds_left([Row("a-s1", "trains")]) is None


def test_a_process_ends_with_the_one_that_started_it():
    program = (
        "import os, subprocess, sys, time\n"
        "from compiler.running.worker import end_with\n"
        "child = subprocess.Popen(['sleep', '600'], preexec_fn=end_with(os.getpid()))\n"
        "print(child.pid, flush=True); time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
    import psutil

    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    child.wait(60)
    with pytest.raises(subprocess.SubprocessError):  # it has another parent than it was told
        subprocess.run(["true"], preexec_fn=end_with(1), check=True)


def test_a_lock_that_a_killed_dvc_has_torn_is_put_back(tmp_path):
    whole = "schema: '2.0'\nstages:\n  page:\n    cmd: python -m stages.publish.page runs/x\n"
    old, torn, new, open_merge = (tmp_path / f"runs/{name}/dvc.lock" for name in ("old", "torn", "new", "merge"))
    for path in (old, torn, open_merge):
        path.parent.mkdir(parents=True)
        path.write_text(whole)
    gone = subprocess.Popen(["true"])
    gone.wait()
    with locks.kept():
        locks._copies(os.getpid()).rename(locks._copies(gone.pid))  # as of an octavo run that was killed
    torn.write_text("")
    new.parent.mkdir()
    new.write_text("schema:")
    locks.restore()
    assert (old.read_text(), torn.read_text(), new.exists()) == (whole, whole, False)
    open_merge.write_text("<<<<<<< HEAD\n")
    locks.restore()
    assert open_merge.read_text() == "<<<<<<< HEAD\n", "nobody was killed: it is a person's"
