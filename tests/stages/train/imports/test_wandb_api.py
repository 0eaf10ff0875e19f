"""Snapshots of W&B runs. `Run` stands in for the object that wandb's public API gives; the network is not ours to test."""

import json
import math
from dataclasses import dataclass, field

import pytest

from stages.train.imports import wandb_snapshot
from stages.train.imports.cells import number
from stages.train.imports.log import Unreadable
from stages.train.imports.wandb_api import fetch


@dataclass
class Run:
    rows: list[dict]
    lastHistoryStep: int
    id: str = "0q46w52p"
    entity: str = "team"
    project: str = "misalign"
    state: str = "finished"
    asked: list[str] = field(default_factory=list)

    def scan_history(self):
        self.asked.append("scan")
        return iter(self.rows)

    def history(self):
        raise AssertionError("case 32: history() gives a sample")


def test_a_snapshot_holds_every_row_and_reads_back(tmp_path):
    rows = [{"_step": step, "train/global_step": step + 1, "train/loss": float("nan") if step == 3 else 0.5} for step in range(700)]
    path = tmp_path / "run.jsonl"
    assert fetch(Run(rows, 699), path) == 700
    head = json.loads(path.read_text().splitlines()[0])
    assert (head["id"], head["rows"], head["last_history_step"]) == ("0q46w52p", 700, 699)
    log = wandb_snapshot.read(path)
    steps = [index for index in log.index if index is not None]
    assert steps == list(range(1, 701)) and math.isnan(number(log.columns["train/loss"].cells[3])) and not log.failed


def test_case_33_no_rows_is_an_error_and_never_a_run_of_no_steps(tmp_path):
    with pytest.raises(Unreadable, match="0 rows, but its last history step is 160660"):
        fetch(Run([], 160660), tmp_path / "run.jsonl")
    with pytest.raises(Unreadable, match="ends at 9 of 20"):
        fetch(Run([{"_step": step} for step in range(10)], 20), tmp_path / "run.jsonl")
    assert not (tmp_path / "run.jsonl").exists()
