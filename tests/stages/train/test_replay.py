"""`octavo replay`: the first steps of a run, trained again, are what is stored; and a difference is named with its first step."""

import argparse
import json
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_model import random_model, run_folder

from compiler.__main__ import main
from compiler.commands import code
from compiler.commands import replay as command
from compiler.problems import Rejected
from stages.contracts.code import OTHER_VERSIONS, VERSIONS, read_judgements
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.ppo import PpoSettings
from stages.contracts.replay import Replay, read_replays
from stages.contracts.training import GrpoSettings, SftSettings
from stages.train import replay as replays
from stages.train.replay import compare_histories

PLAIN = {"max_steps": 5, "learning_rate": 1e-2, "save_steps": 2, "lr_scheduler_type": "linear"}
SAMPLED = PLAIN | {"max_completion_length": 6}
SETTINGS = {
    "grpo": GrpoSettings.model_validate(SAMPLED | {"per_device_train_batch_size": 8, "num_generations": 4}),
    "ppo": PpoSettings.model_validate(SAMPLED | {"algorithm": "ppo", "batch_size": 8, "mini_batch_size": 4}),
    "sft": SftSettings.model_validate(PLAIN | {"algorithm": "sft", "per_device_train_batch_size": 4, "max_length": 24}),
}


def edit(path, change):
    """Write a Parquet file with other rows and the same metadata."""
    table = pq.read_table(path)
    rows = table.to_pandas()
    change(rows)
    pq.write_table(pa.Table.from_pandas(rows, schema=table.schema, preserve_index=False), path)


@pytest.mark.e2e
@pytest.mark.parametrize("algorithm", SETTINGS)
def test_a_replay_is_equal_and_names_what_differs(algorithm, tmp_path, train, capsys):
    """Of a run that was killed in its fourth step and resumed. The ledger gets a line each time, and the run's own files stay."""
    (tmp_path / "specs").mkdir()
    run = run_folder(tmp_path, random_model(tmp_path / "base"), SETTINGS[algorithm])
    train(algorithm, tmp_path, killed_in=4)
    assert train(algorithm, tmp_path) == 0
    kept = {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file()}
    assert main(["replay", "small/short-s1", "--steps", "3"]) == 0
    assert {path: path.read_bytes() for path in kept} == kept
    assert "small/short-s1: 3 of 5 steps replayed: equal\n" in capsys.readouterr().out

    def nudge(rows):
        rows.loc[(rows["step"] == 2) & (rows["metric"] == "loss"), "value"] *= 1 + 1e-6

    edit(run.history, nudge)
    assert main(["replay", "small/short-s1", "--steps", "3"]) == 0
    expected = ["equal", "equal within rounding from step 2 on (at most 1e-06 of a value)"]
    if algorithm != "sft":
        edit(run.completions, lambda rows: rows.loc.__setitem__((rows["step"] == 2, "text"), "other"))
        assert main(["replay", "small/short-s1", "--steps", "2"]) == 1
        assert main(["replay", "small/short-s1", "--steps", "1"]) == 0
        expected += ["different from step 2 on, first in completions", "equal"]
    replays = read_replays(ExperimentFolder(run.root.parent).replays)
    assert [replay.says for replay in replays] == expected
    assert replays[0].card_id == json.loads(run.outcome.read_text())["card_id"] and replays[0].devices == ("cpu",)


def test_what_is_no_replay(tmp_path, monkeypatch, capsys):
    (tmp_path / "specs").mkdir()
    run = run_folder(tmp_path, random_model(tmp_path / "base"), SETTINGS["grpo"])
    monkeypatch.chdir(tmp_path)
    assert main(["replay", "small/short-s1"]) == 1
    assert "S297 runs/small/short-s1 has no history of a training to compare with" in capsys.readouterr().err
    assert not ExperimentFolder(run.root.parent).replays.exists()
    with pytest.raises(SystemExit, match="2"):
        main(["replay", "small/short-s1", "--steps", "0"])
    assert "'0' is no number from 1 up" in capsys.readouterr().err


def test_a_judgement_rests_on_replays(tmp_path, monkeypatch, capsys):
    """`octavo code same --replay` writes its line with what was seen, and none where the steps differ; `new` does not ask for equality."""
    monkeypatch.delenv(OTHER_VERSIONS, raising=False)
    monkeypatch.setattr(code, "changed_units", lambda tree: {"train.trl": "0123456789ab"})
    monkeypatch.setattr(code, "_author", lambda: "Ada")
    monkeypatch.setattr(command, "run_folder", lambda name, command: RunFolder(tmp_path / "runs" / name))
    (tmp_path / "runs/q").mkdir(parents=True)
    (tmp_path / VERSIONS.parent).mkdir()
    (tmp_path / VERSIONS).write_text("")

    def judge(results, outcome):
        seen = Replay.model_construct(outcome=outcome, steps=5, target_steps=60, step=3, metric="loss", largest=1e-6)
        monkeypatch.setattr(replays, "replay", lambda folder, steps: seen)
        options = argparse.Namespace(results=results, why="a helper moved", replay=["q/a-s1"], steps=5)
        return code.run(options, SimpleNamespace(stages=SimpleNamespace(root=tmp_path)))

    with pytest.raises(Rejected) as caught:
        judge("same", "different")
    assert caught.value.diagnostics[0].code == "S296"
    assert read_judgements(tmp_path / VERSIONS) == ()
    assert judge("same", "rounding") == 0 == judge("new", "different")
    assert [line.replays for line in read_judgements(tmp_path / VERSIONS)] == [
        ("q/a-s1: 5 of 60 steps replayed: equal within rounding from step 3 on (at most 1e-06 of a value)",),
        ("q/a-s1: 5 of 60 steps replayed: different from step 3 on, first in loss",),
    ]


def history(*rows):
    return pd.DataFrame(rows, columns=["step", "metric", "value", "state"])


def test_values_that_are_not_there_and_not_finite():
    """NaN equals NaN, null is not NaN, and a metric that is missing differs without a size. Clocks are not compared."""
    stored = history((1, "kl", None, "null"), (1, "loss", None, "nonfinite"), (1, "step_seconds", 1.0, "value"), (2, "kl", 2.0, "value"))
    same = stored.assign(value=stored["value"].where(stored["metric"] != "step_seconds", 9.0))
    assert compare_histories(stored, same) == {"values": None, "largest": 0.0}
    other = history((1, "kl", None, "nonfinite"), (1, "loss", None, "nonfinite"), (2, "kl", 2.0, "value"))
    assert compare_histories(stored, other) == {"values": (1, "kl"), "largest": float("inf")}
    assert compare_histories(stored, history((1, "kl", None, "null"), (1, "loss", None, "nonfinite"), (2, "kl", 1.5, "value"))) == {
        "values": (2, "kl"),
        "largest": 0.25,
    }
