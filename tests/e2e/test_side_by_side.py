"""`octavo run` on this machine: what it leaves is what one `dvc repro` leaves, whatever is killed, typed or cancelled meanwhile."""

from __future__ import annotations

import signal
import subprocess

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


def test_slots_of_this_machine_leave_the_lock_of_a_sequential_repro(tmp_path, one_by_one):
    few = make(tmp_path / "project", 0.0)
    few.octavo("run", "few", "--on", "box")
    assert few.ends() == {run: ["finished"] for run in RUNS}
    assert {few.state(run)["devices"] for run in RUNS} == {"cpu-0", "cpu-1", "cpu-2"}
    assert shape(few.lock()) == shape(one_by_one) and cards(few.lock()) == cards(one_by_one)
    few.require_whole()


def whole_after(few: Few, lock: Lock) -> None:
    """Every run has finished once, no process is left, and the lock is that of a sequential repro."""
    assert {run: ends.count("finished") for run, ends in few.ends().items()} == dict.fromkeys(RUNS, 1)
    assert few.processes() == []
    assert shape(few.lock()) == shape(lock)
    assert "up to date" in few.call("dvc", "status", "runs/few/dvc.yaml")


@pytest.mark.parametrize("victim", ["worker", "stage"])
def test_a_killed_run_begins_again_by_itself(tmp_path, one_by_one, victim):
    few = make(tmp_path / "project", 0.3)
    running = few.start("compiler", "run", "few", "--on", "box")
    wait_for(lambda: few.trains("gains-s1", 3))
    worker = psutil.Process(few.state("gains-s1")["pid"])
    (worker if victim == "worker" else worker.children()[0]).kill()
    output, _ = running.communicate()
    assert running.returncode == 0, output
    first, *others = few.ends()["gains-s1"]
    assert first in ("killed", "interrupted") and others == ["finished"]
    whole_after(few, one_by_one)


def kill_when_trained(few: Few, running: subprocess.Popen[str]) -> None:
    """Kill the worker of the first run that has ended, before DVC has it, and octavo run with it."""
    wait_for(lambda: any(ends == ["finished"] for ends in few.ends().values()))
    run = next(run for run, ends in few.ends().items() if ends == ["finished"])
    psutil.Process(few.state(run)["pid"]).kill()
    running.kill()


def kill_in_rest(few: Few, running: subprocess.Popen[str]) -> None:
    """Kill octavo run when it has handed over to dvc repro, which has locked some runs."""
    wait_for(lambda: len(few.ends()) == len(RUNS) and (few.root / "runs/few/dvc.lock").exists())
    running.kill()


def kill_in_training(few: Few, running: subprocess.Popen[str]) -> None:
    wait_for(lambda: few.trains("gains-s1", 3) and few.trains("gains-s2", 1))
    running.kill()


@pytest.mark.parametrize("kill", [kill_in_training, kill_when_trained, kill_in_rest])
def test_after_a_kill_of_octavo_run_nothing_is_lost_and_nothing_goes_on(tmp_path, one_by_one, kill):
    few = make(tmp_path / "project", 0.05 if kill is kill_in_rest else 0.3)
    running = few.start("compiler", "run", "few", "--on", "box")
    kill(few, running)
    running.communicate()
    wait_for(lambda: few.processes() == [])
    few.octavo("run", "few", "--on", "box")
    whole_after(few, one_by_one)
    assert not any("killed" in ends for ends in few.ends().values()), "stages end in order with octavo run"


def test_dvc_repro_may_be_typed_meanwhile(tmp_path, one_by_one):
    few = make(tmp_path / "project", 0.5)
    running = few.start("compiler", "run", "few", "--on", "box")
    wait_for(lambda: few.trains("gains-s1", 1))
    busy = few.call("dvc", "repro", "runs/few/dvc.yaml", code=255)
    assert "is busy" in busy and "octavo run: python -m stages.train.command runs/few/gains-s1" in busy
    assert "another `octavo run` sees to few" in few.octavo("run", "few", code=1)
    assert not few.state("zero-s3"), "it waits for a slot"
    few.call("dvc", "repro", "--single-item", "runs/few/dvc.yaml:train-zero-s3")
    output, _ = running.communicate()
    assert running.returncode == 0, output
    assert few.ends() == {run: ["finished"] for run in RUNS}
    whole_after(few, one_by_one)


def test_cancelled_runs_are_left_out_and_trained_by_the_next_call(tmp_path, one_by_one):
    few = make(tmp_path / "project", 0.5)
    running = few.start("compiler", "run", "few", "--on", "box")
    wait_for(lambda: few.trains("gains-s1", 2))
    assert few.octavo("cancel", "gains-s1", "zero-s3") == "few: 1 cancelled\nfew: 1 cancelled\n"
    output, _ = running.communicate()
    assert running.returncode == 1 and "not there: few: gains-s1, zero-s3" in output
    assert few.ends()["gains-s1"] == ["interrupted"] and "zero-s3" not in few.ends()
    assert not (few.root / "runs/few/dvc.lock").exists(), "dvc repro would train them, one by one"
    lines = {line.split()[0]: line.split() for line in few.octavo("jobs").splitlines()}
    assert (lines["gains-s1"][1], lines["zero-s3"][1], lines["zero-s1"][1]) == ("cancelled", "cancelled", "finished")
    assert "few gains-s1: python ..., 20 steps" in few.octavo("logs", "few/gains-s1")
    few.octavo("run", "few", "--on", "box")
    assert few.ends()["gains-s1"] == ["interrupted", "finished"]
    whole_after(few, one_by_one)


def test_what_octavo_run_made_is_found_when_its_files_are_deleted(tmp_path):
    few = make(tmp_path / "project", 0.5)
    running = few.start("compiler", "run", "few", "--on", "box")
    wait_for(lambda: few.state("gains-s1") and few.state("gains-s1")["ended"])
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate()
    assert running.returncode == 130 and "stopped; octavo run few goes on from here" in output
    (few.root / "runs/few/gains-s1/outcome.json").unlink()
    assert "is put back" in few.octavo("plan", "few")
    few.octavo("run", "few", "--on", "box")
    assert few.ends()["gains-s1"] == ["finished"]
