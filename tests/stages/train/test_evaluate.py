"""The shared evaluation of one run depends on no other run, whether its table is made in its own process or in that of a sibling."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
import torch
from peft import LoraConfig, get_peft_model
from random_model import ROWS, random_model
from transformers import AutoModelForCausalLM

from stages.contracts.artifact import write
from stages.contracts.attempt import Outcome
from stages.contracts.code import code_versions
from stages.contracts.code_tree import CodeTree
from stages.contracts.evaluation import EvaluateCard
from stages.contracts.files import file_digest
from stages.contracts.layout import EVALUATIONS, ExperimentFolder
from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.reward import Gate
from stages.contracts.stage import ROOT
from stages.train import evaluate as stage
from stages.train.evaluate import evaluate

NAMES = ("a-s1", "a-s2", "b-s1")


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """Three trained runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage.interrupts, "install_handlers", lambda: None)
    base, experiment = random_model(tmp_path / "base"), ExperimentFolder(tmp_path / "runs/small")
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for seed, name in enumerate(NAMES):
        torch.manual_seed(seed)
        lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
        get_peft_model(AutoModelForCausalLM.from_pretrained(base), lora).save_pretrained(experiment.run(name).adapter)
        finish(experiment.run(name), f"{name}-a1")
    write(
        experiment.evaluate_card,
        EvaluateCard(
            experiment="small",
            model=ModelRef(base="tiny", path=str(base), revision="0"),
            data=DatasetRef(path="data.jsonl", sha256=file_digest(tmp_path / "data.jsonl")),
            scores=(Gate(name="said", kind="exact_match", settings={"column": "gold", "strip": True}),),
            max_completion_length=6,
            device="cpu",
            versions={},
            code=code_versions(CodeTree(ROOT), ["stages.train.evaluate", "stages.train.rewards.exact_match"]),
        ),
    )
    experiment.conclude_card.write_text(json.dumps({"runs": [{"name": name} for name in (*NAMES, "a-s9")]}))
    return experiment


def finish(run, attempt, finished=True):
    write(run.outcome, Outcome(card_id="0", attempt=attempt, finished=finished, steps_done=1, target_steps=1))


def tables(experiment):
    return {run: pq.read_table(experiment.run(run).evaluation) for run in (*NAMES, "untrained") if experiment.run(run).evaluation.exists()}


def test_a_table_is_the_same_wherever_it_is_made(experiment, monkeypatch, capsys):
    for name in (*NAMES, "untrained"):
        evaluate(experiment.run(name).root)
    assert capsys.readouterr().out.count("evaluated on 12 prompts") == 4, "each process its own"
    alone = tables(experiment)
    texts = [tuple(table["text"].to_pylist()) for table in alone.values()]
    assert len(set(texts)) == 4
    shutil.rmtree(EVALUATIONS)

    monkeypatch.setenv("DVC_STAGE", "evaluate-a-s2")
    evaluate(experiment.run("a-s2").root)
    assert capsys.readouterr().out.count("evaluated on 12 prompts") == 4, "the others are made for their stages"
    monkeypatch.setattr(stage, "load_base", None)
    for name in (*NAMES, "untrained"):
        evaluate(experiment.run(name).root)
    assert tables(experiment) == alone


def test_what_trains_again_is_evaluated_again_alone(experiment, monkeypatch, capsys):
    monkeypatch.setenv("DVC_STAGE", "evaluate-a-s1")
    evaluate(experiment.run("a-s1").root)
    finish(experiment.run("a-s2"), "a-s2-a2")
    finish(experiment.run("b-s1"), "b-s1-a2", finished=False)
    capsys.readouterr()
    for name in NAMES:
        evaluate(experiment.run(name).root)
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2] for line in said] == [
        "evaluated before", "evaluated on 12 prompts x 1", "not evaluated, its latest attempt failed"
    ]  # fmt: skip
    empty = pq.read_table(experiment.run("b-s1").evaluation)
    assert empty.num_rows == 0 and empty.schema.metadata[b"octavo.attempt"] == b"b-s1-a2"


def test_a_broken_sibling_fails_in_its_own_stage(experiment, monkeypatch, capsys):
    monkeypatch.setenv("DVC_STAGE", "evaluate-a-s1")
    (experiment.run("a-s2").adapter / "adapter_model.safetensors").write_bytes(b"torn")
    evaluate(experiment.run("a-s1").root)
    assert "small a-s2: left to its own stage" in capsys.readouterr().out and experiment.run("a-s1").evaluation.exists()
    with pytest.raises(Exception, match="header"):
        evaluate(experiment.run("a-s2").root)
