"""`octavo run` on this machine: what it leaves is what one `dvc repro` leaves, whatever is killed, typed or cancelled meanwhile."""

from __future__ import annotations

import pytest
from side_by_side import RUNS, make

from stages.contracts.dvc_lock import Lock


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory) -> Lock:
    """The lock of a sequential `dvc repro`."""
    few = make(tmp_path_factory.mktemp("one") / "project", 0.0)
    few.call("dvc", "repro", "runs/few/dvc.yaml")
    return few.lock()


def shape(lock: Lock) -> dict[str, object]:
    """What every way of running must leave alike: commands, inputs that people and the compiler write, names of outputs. Results hold
    times and names of attempts, which differ."""
    inputs = {name: {path: entry.md5 for path, entry in stage.deps.items() if "card" in path} for name, stage in lock.items()}
    return {name: (stage.cmd, inputs[name], sorted(stage.deps), sorted(stage.outs)) for name, stage in lock.items()}


def test_slots_of_this_machine_leave_the_lock_of_a_sequential_repro(tmp_path, one_by_one):
    few = make(tmp_path / "project", 0.0)
    few.octavo("run", "few", "--on", "box")
    assert few.ends() == {run: ["finished"] for run in RUNS}
    assert {few.state(run)["devices"] for run in RUNS} == {"cpu-0", "cpu-1", "cpu-2"}
    assert shape(few.lock()) == shape(one_by_one)
    few.require_whole()
