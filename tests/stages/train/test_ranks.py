"""One run on two processes: each samples and learns from its half, the first alone scores, records and saves, and what is learnt is what
one process would have learnt."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
import torch
from random_model import ROWS, finish, random_model, run_folder
from safetensors.torch import load_file

from stages.contracts.artifact import read
from stages.contracts.attempt import Outcome
from stages.contracts.model import Adapter
from stages.contracts.stage import ROOT
from stages.contracts.training import GrpoSettings
from stages.train import ranks
from stages.train.attempts import Stopped
from stages.train.environment import prepare
from stages.train.resume import required_files
from stages.train.trl import CHECKPOINT

BY_ROW = """
import os

import torch


def multinomial(shares, num_samples, *rest, **named):
    first = int(os.environ.get("RANK", "0")) * len(shares)
    drawn = []
    for row, share in enumerate(shares):
        likeliest = int(share.argmax())
        generator = torch.Generator().manual_seed(1000 * (first + row) + likeliest)
        noise = torch.empty(len(share)).exponential_(generator=generator)
        drawn.append((share / noise).argmax() if (first + row + likeliest) % 5 else torch.tensor(1))
    return torch.stack(drawn)[:, None]


torch.multinomial = multinomial
"""
"""Python reads it at its start (sitecustomize): a draw depends on the likeliest token and the row's place in the whole batch, and not on
which process makes it. A fifth of them are the end, so that lengths differ."""


def cells(run):
    """(step, metric) -> value, times aside."""
    rows = pq.read_table(run.history).to_pylist()
    return {(row["step"], row["metric"]): row["value"] for row in rows if "seconds" not in row["metric"]}


def test_a_job_that_counts_its_processes_makes_no_run_of_several(monkeypatch):
    """`dvc repro` as one of four tasks of a cluster job: its stages are alone."""
    for name, value in {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    prepare("cpu", worker=True)
    assert os.environ["RANK"] == "3" and (ranks.rank(), ranks.world()) == (0, 1)
    prepare("cpu")
    assert "RANK" not in os.environ and "LOCAL_RANK" not in os.environ


@pytest.mark.e2e
def test_two_processes_learn_what_one_does(tmp_path, train, monkeypatch):
    """Three steps of two groups of four, whole and as a group a process: one history, the same completions, one adapter."""
    plain = {"max_steps": 3, "learning_rate": 1e-2, "max_completion_length": 6, "save_steps": 1, "num_generations": 4, "beta": 0.04}
    base = random_model(tmp_path / "base")
    (tmp_path / "draws").mkdir()
    (tmp_path / "draws/sitecustomize.py").write_text(BY_ROW)
    runs = []
    for name, processes in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        settings = GrpoSettings.model_validate({**plain, "per_device_train_batch_size": 8 // processes})
        runs.append(run_folder(tmp_path / name, base, settings, processes))
        if processes == 1:  # in this process: another one would import TRL for seconds
            monkeypatch.setattr(torch, "multinomial", torch.multinomial)
            exec(BY_ROW, {})
            train("grpo", tmp_path / name)
        else:
            finish("grpo", tmp_path / name, tmp_path / "draws")
        assert read(Outcome, runs[-1].outcome).finished
    single, double = runs
    completions = pq.read_table(double.completions).to_pylist()
    for step in (1, 2, 3):
        rows = [row for row in completions if row["step"] == step]
        groups = [{row["prompt_id"] for row in rows if row["group"] == group} for group in (0, 1)]
        assert len(rows) == 8 and all(len(prompts) == 1 for prompts in groups) and groups[0] != groups[1]
        assert set.union(*groups) <= {row["id"] for row in ROWS}
        assert cells(double)[step, "reward"] == pytest.approx(sum(row["reward"] for row in rows) / 8)
        assert cells(double)[step, "grad_norm"] > 0 and len({row["tokens"] for row in rows}) > 1, "else any way to average would do"
    whole = pq.read_table(single.completions).to_pylist()
    assert [(row["step"], row["group"], row["text"], row["reward"]) for row in completions] == [
        (row["step"], row["group"], row["text"], row["reward"]) for row in whole
    ]
    assert cells(double) == {place: pytest.approx(value, rel=1e-4, abs=1e-6) for place, value in cells(single).items()}
    adapters = [load_file(run.adapter / "adapter_model.safetensors") for run in runs]
    assert adapters[0].keys() == adapters[1].keys()
    for name, weight in adapters[0].items():
        assert weight.abs().max() > 0 and adapters[1][name].numpy() == pytest.approx(weight.numpy(), abs=1e-7), name
    assert len(double.attempts.read_text().splitlines()) == 2, "one attempt, not one a process"


def test_a_rank_that_lost_its_stage_while_it_started_ends(tmp_path):
    """The stage was killed before the rank could ask to be killed with it: nothing is trained and nothing is waited for."""
    script = "from stages.train.ranks import _as_rank; _as_rank(1, 2, 0, 1, None, None, print, ['trained'])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")


def as_rank(how):
    """One rank ends so; the other sees a broken connection, or would wait for ten minutes."""
    number = int(os.environ["RANK"])
    if how.startswith("SIG"):
        if number == 1:
            os.kill(os.getpid(), signal.Signals[how])
        time.sleep(0.05)
        raise RuntimeError("connection closed by peer")
    if number == int(how):
        raise Stopped("verifier", "no answer")
    time.sleep(600)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("SIGKILL", ("interrupted", "rank 1 was killed by SIGKILL")),
        ("SIGSEGV", ("bug", "rank 1 was killed by SIGSEGV")),
        ("0", ("verifier", "no answer")),
        ("1", ("verifier", "rank 1: no answer")),
    ],
)
def test_a_rank_that_fails_is_the_reason_and_the_others_are_ended(how, expected):
    with pytest.raises(Stopped) as caught:
        ranks.run_ranks(2, as_rank, how)
    assert (caught.value.failure, str(caught.value)) == expected and os.environ.get("WORLD_SIZE") is None


def test_each_rank_has_random_numbers_of_its_own_in_a_checkpoint():
    parts = {"model": SimpleNamespace(adapter=Adapter()), "train": SimpleNamespace()}
    alone, double = (required_files(CHECKPOINT, SimpleNamespace(gpus=gpus, **parts)) for gpus in (1, 2))
    assert set(CHECKPOINT) < set(alone)
    assert set(double) == set(alone) - {"rng_state.pth"} | {"rng_state_0.pth", "rng_state_1.pth"}
