"""`octavo run --on cluster` with a real Slurm: what it leaves is what one `dvc repro` leaves, whatever happens to its jobs and nodes."""

from __future__ import annotations

import psutil
import pytest
from side_by_side import RUNS, Few, make, wait_for
from slurm import Cluster, Unavailable, start

MACHINES = """\
cluster: {kind: slurm, partition: gpu, time: 10m, grace: 30s, at_once: 3, options: ["--gres=gpu:1"]}
elsewhere: {kind: slurm, partition: nowhere}
blind: {kind: slurm, setup: ["cd /"]}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    try:
        cluster = start(tmp_path_factory.mktemp("slurm"), 3, array_size=5)
    except Unavailable as why:
        pytest.skip(str(why))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(cluster.conf))
        yield cluster
    cluster.stop()


def project(root, seconds: float) -> Few:
    few = make(root, seconds)
    (root / "specs/machines.yaml").write_text(MACHINES)
    return few


def test_all_goes_on_from_a_login_node_whose_cluster_takes_no_jobs_of_jobs(cluster: Cluster, tmp_path):
    few = project(tmp_path / "project", 0.0)
    refused = few.octavo("run", "few", "--on", "elsewhere", code=1)
    assert "E503 sbatch refused the job: sbatch: error: invalid partition" in refused and "--partition=nowhere" in refused
    output = few.octavo("run", "few", "--on", "cluster", "--wait")
    assert "submitted 6 runs as job" in output and not cluster.jobs()
    assert few.ends() == {run: ["finished"] for run in RUNS}
    few.require_whole()
    doctor = few.call("compiler", "doctor", "few", "--on", "cluster", code=None)
    assert "a node of cluster sees this folder" in doctor
    assert "its answer is not in this folder" in few.call("compiler", "doctor", "few", "--on", "blind", code=1)


def test_runs_survive_preemption_lost_nodes_and_kills_and_a_cancelled_run_is_reported(cluster: Cluster, tmp_path):
    few = project(tmp_path / "project", 0.0)
    hold = few.root / "hold"  # no run gets beyond its fifth step while it is there
    hold.touch()
    program = few.root / "train.py"
    program.write_text(program.read_text() + '        while step == 5 and Path("hold").exists():\n            time.sleep(0.05)\n')
    few.octavo("compile")
    few.octavo("run", "few", "--on", "cluster")
    for machine in ("cluster", "local"):
        assert "E503 jobs see to few already" in few.octavo("run", "few", "--on", machine, code=1), "nothing is trained twice"
    wait_for(lambda: len(training(few)) == 3, 300)
    preempted, cancelled, lost = training(few)
    jobs = cluster.jobs()
    node = jobs[few.state(preempted)["job"]][1]
    cluster.call("sbatch", "--partition=urgent", f"--nodelist={node}", "--gres=gpu:1", "--output=/dev/null", "--wrap=true")
    assert f"{cancelled}" in few.octavo("jobs", "few")
    few.octavo("cancel", f"few/{cancelled}")
    cluster.lose_node(jobs[few.state(lost)["job"]][1])
    wait_for(lambda: len(few.ends()) > 3 and any(run not in (preempted, cancelled, lost) for run in training(few)), 300)
    killed = next(run for run in training(few) if run not in (preempted, cancelled, lost))
    stage, *programs = psutil.Process(few.state(killed)["pid"]).children(recursive=True)
    stage.kill()
    assert not psutil.wait_procs(programs, 120)[1], "what a killed stage has started ends with it"
    hold.unlink()
    wait_for(lambda: not cluster.jobs(), 540)
    ends = few.ends()
    assert ends[preempted] == ["interrupted", "finished"] and ends[cancelled] == ["interrupted"]
    assert ends[lost] == ["killed", "finished"] and ends[killed] == ["killed", "finished"]
    assert few.state(cancelled)["why"] == "cancelled"
    assert "train-" not in few.lock(), "dvc repro would train the cancelled run, so the rest waits"
    few.octavo("run", "few", "--on", "cluster")
    wait_for(lambda: not cluster.jobs(), 540)
    assert few.ends()[cancelled] == ["interrupted", "finished"]
    few.require_whole()


def training(few: Few) -> list[str]:
    """Runs whose program has logged a step in an attempt that goes on."""
    return [run for run, ends in few.ends().items() if ends[-1] == "killed" and few.steps(run) > 1]
