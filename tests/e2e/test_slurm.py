"""`octavo run --on cluster` with a real Slurm: what it leaves is what one `dvc repro` leaves, whatever happens to its jobs and nodes."""

from __future__ import annotations

import pytest
from side_by_side import RUNS, Few, make, wait_for
from slurm import Cluster, Unavailable, start

MACHINES = """\
cluster: {kind: slurm, partition: gpu, time: 10m, grace: 30s, options: ["--gres=gpu:1"]}
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


def test_an_array_leaves_the_lock_of_a_sequential_repro(cluster: Cluster, tmp_path):
    few = project(tmp_path / "project", 0.0)
    assert "submitted 6 runs" in few.octavo("run", "few", "--on", "cluster")
    wait_for(lambda: not cluster.jobs(), 300)
    assert few.ends() == {run: ["finished"] for run in RUNS}
    few.require_whole()
