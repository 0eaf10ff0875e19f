"""`octavo run` on this machine: what it leaves is what one `dvc repro` leaves, whatever is killed, typed or cancelled meanwhile."""

from __future__ import annotations

import shutil
import signal

import psutil
import pytest
from side_by_side import RUNS, Few, make, wait_for

from stages.contracts.dvc_lock import Lock


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory) -> Lock:
    """The lock of a sequential `dvc repro`."""
    few = make(tmp_path_factory.mktemp("one") / "project", 0.0)
    few.call("dvc", "repro", "runs/few/dvc.yaml")
    return few.lock()


def shape(lock: Lock) -> dict[str, object]:
    """What every way of running leaves alike: commands, names of inputs and outputs. Results hold times and names of attempts."""
    return {name: (stage.cmd, sorted(stage.deps), sorted(stage.outs)) for name, stage in lock.items()}


def cards(lock: Lock) -> dict[tuple[str, str], str]:
    """(stage, path) -> hash of what the compiler wrote."""
    return {(name, path): entry.md5 for name, stage in lock.items() for path, entry in stage.deps.items() if "card" in path}


def require_whole(few: Few, lock: Lock) -> None:
    """Every run has finished once, no process is left, and the lock is that of a sequential repro."""
    assert {run: ends.count("finished") for run, ends in few.ends().items()} == dict.fromkeys(RUNS, 1)
    assert few.processes() == []
    assert shape(few.lock()) == shape(lock)
    assert "up to date" in few.call("dvc", "status", "runs/few/dvc.yaml")


def test_slots_of_this_machine_leave_the_lock_of_a_sequential_repro(tmp_path, one_by_one):
    few = make(tmp_path / "project", 0.0)
    few.octavo("run", "few", "--on", "box")
    assert few.ends() == {run: ["finished"] for run in RUNS}
    assert {few.state(run)["devices"] for run in RUNS} == {"cpu-0", "cpu-1", "cpu-2"}
    assert cards(few.lock()) == cards(one_by_one)
    few.require_whole()
    shutil.rmtree(few.root / ".dvc/cache/runs")  # as where all was killed when the runs had ended, before DVC had them
    (few.root / "runs/few/dvc.lock").unlink()
    (few.root / "runs/few/zero-s1/retry.json").write_text('{"after": "zero-s1-a1", "schema": "octavo.retry/1"}')
    few.octavo("run", "few", "--on", "box")
    assert few.ends() == {run: ["finished"] * (1 + (run == "zero-s1")) for run in RUNS}, "only what has other inputs trains again"


def test_a_killed_run_begins_again_by_itself(tmp_path, one_by_one):
    few = make(tmp_path / "project", 0.0)
    running = few.start_and_hold(*RUNS[:3])
    worker = psutil.Process(few.state("gains-s1")["pid"])
    stage = psutil.Process(few.state("gains-s2")["pid"]).children()[0]
    below = [*worker.children(recursive=True), *stage.children(recursive=True)]
    worker.kill()
    stage.kill()
    assert psutil.wait_procs(below, 120)[1] == [], "a program ends with its stage, and a stage with its worker"
    few.release()
    output, _ = running.communicate()
    assert running.returncode == 0, output
    assert few.ends()["gains-s1"] == ["interrupted", "finished"] and few.ends()["gains-s2"] == ["killed", "finished"]
    require_whole(few, one_by_one)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_runs_end_in_order_with_octavo_run_and_the_next_call_goes_on(tmp_path, one_by_one, number):
    few = make(tmp_path / "project", 0.0)
    running = few.start_and_hold(*RUNS[:3])
    running.send_signal(number)
    output, _ = running.communicate()
    wait_for(lambda: few.processes() == [])
    assert number == signal.SIGKILL or (running.returncode == 130 and "stopped; octavo run few goes on from here" in output)
    assert few.ends() == {run: ["interrupted"] for run in RUNS[:3]}
    few.release()
    few.octavo("run", "few", "--on", "box")
    require_whole(few, one_by_one)


def test_a_kill_while_dvc_puts_runs_back_loses_nothing(tmp_path, one_by_one):
    few = make(tmp_path / "project", 0.0)
    running = few.start("compiler", "run", "few", "--on", "box")
    wait_for((few.root / "runs/few/dvc.lock").exists, 300)
    running.kill()
    running.communicate()
    (few.root / ".dvc/tmp/rwlock").write_text("")  # what DVC leaves when it is killed while it writes
    few.octavo("run", "few", "--on", "box")
    require_whole(few, one_by_one)


def test_dvc_repro_may_be_typed_meanwhile(tmp_path, one_by_one):
    few = make(tmp_path / "project", 0.0)
    running = few.start_and_hold(*RUNS[:3])
    busy = few.call("dvc", "repro", "runs/few/dvc.yaml", code=255)
    assert "is busy" in busy and "octavo run: python -m stages.train.command runs/few/gains-s1" in busy
    assert "another `octavo run` sees to few" in few.octavo("run", "few", code=1)
    beside = few.start("dvc", "repro", "--single-item", "runs/few/dvc.yaml:train-zero-s3")
    wait_for(lambda: few.steps("zero-s3") == 5)
    few.release()
    assert (beside.wait(), running.wait()) == (0, 0)
    assert few.ends() == {run: ["finished"] for run in RUNS}
    require_whole(few, one_by_one)


def test_cancelled_runs_are_left_out_and_trained_by_the_next_call(tmp_path, one_by_one):
    few = make(tmp_path / "project", 0.0)
    running = few.start_and_hold(*RUNS[:3])
    assert few.octavo("cancel", "gains-s1", "few/zero-s3") == "few: 1 cancelled\nfew: 1 cancelled\n"
    wait_for(lambda: few.state("gains-s1")["ended"])
    few.release()
    output, _ = running.communicate()
    assert running.returncode == 1 and "not there: few: gains-s1, zero-s3" in output
    assert few.ends()["gains-s1"] == ["interrupted"] and "zero-s3" not in few.ends()
    assert not (few.root / "runs/few/dvc.lock").exists(), "dvc repro would train them, one by one"
    lines = {line.split()[0]: line.split() for line in few.octavo("jobs").splitlines()}
    assert (lines["gains-s1"][1], lines["zero-s3"][1], lines["zero-s1"][1]) == ("cancelled", "cancelled", "finished")
    assert "few gains-s1: python ..., 20 steps" in few.octavo("logs", "few/gains-s1")
    assert "4 are put back" in few.octavo("plan", "few")
    (few.root / "runs/few/zero-s1/outcome.json").unlink()
    few.octavo("run", "few", "--on", "box")
    assert few.ends()["gains-s1"] == ["interrupted", "finished"] and few.ends()["zero-s1"] == ["finished"]
    require_whole(few, one_by_one)
