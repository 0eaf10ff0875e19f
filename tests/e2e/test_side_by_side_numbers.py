"""Real training side by side gives the numbers of training one by one, bit by bit."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

from stages.contracts.files import file_digest

pytestmark = pytest.mark.e2e


def numbers(project) -> dict[str, tuple[str, pd.DataFrame]]:
    """Run -> (hash of its adapter, what its history measured but time)."""
    measured = {}
    for name in project.runs():
        history = pd.read_parquet(project.run(name).history).drop(columns=["attempt", "seconds"])
        adapter = file_digest(project.run(name).adapter / "adapter_model.safetensors")
        measured[name] = (adapter, history[~history.metric.str.endswith("seconds")].reset_index(drop=True))
    return measured


def test_runs_side_by_side_have_the_numbers_of_runs_one_by_one(built, project, tmp_path):
    for path in (project.experiment.root / "dvc.lock", *project.experiment.root.glob("*/attempts.jsonl")):
        path.unlink()
    shutil.rmtree(project.root / ".dvc/cache/runs")
    (project.root / "specs/machines.yaml").write_text("box: {slots: 3}\n")
    project.call("python", "-m", "compiler", "run", "small", "--on", "box", OCTAVO_SLOTS=str(tmp_path / "slots"))
    assert project.counts() == dict.fromkeys(built.counts(), 1)
    side_by_side, one_by_one = numbers(project), numbers(built)
    for name, (adapter, history) in one_by_one.items():
        assert side_by_side[name][0] == adapter
        pd.testing.assert_frame_equal(side_by_side[name][1], history, check_exact=True)
