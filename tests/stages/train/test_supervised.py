"""Supervised fine-tuning through TRL: real training of a tiny random model, a LoRA adapter and all weights, with resume after a kill."""

import os

import pyarrow.parquet as pq
import pytest
from random_model import LORA, random_model, run_folder
from safetensors.torch import load_file
from transformers import AutoTokenizer

from stages.contracts.artifact import read, write
from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.code import code_versions
from stages.contracts.code_tree import CodeTree
from stages.contracts.evaluation import EvaluateCard
from stages.contracts.files import file_digest
from stages.contracts.model import Adapter, DatasetRef, ModelRef
from stages.contracts.reward import Gate
from stages.contracts.stage import ROOT
from stages.contracts.training import SftSettings
from stages.train.attempts import Stopped
from stages.train.evaluate import evaluate
from stages.train.supervised import gold_pairs

PLAIN = {"algorithm": "sft", "max_steps": 24, "learning_rate": 3e-2, "per_device_train_batch_size": 4, "max_length": 24, "save_steps": 2}
ROWS = [{"id": f"row-{number}", "prompt": f"{number} is\n", "gold": "odd" if number % 2 else "even"} for number in range(10)]
FULL = Adapter(kind="full")


def gold_folder(folder, base, adapter=LORA, rows=ROWS):
    folder.mkdir(exist_ok=True)
    return run_folder(folder, base, SftSettings.model_validate(PLAIN), adapter=adapter, rows=rows)


def cells(run):
    """Of each step what the last attempt that made it logged, times aside."""
    rows = pq.read_table(run.history).to_pylist()
    logged = {(row["step"], row["metric"]): row["value"] for row in rows if not row["metric"].endswith("seconds")}
    return logged | {(row["step"], "tokens"): row["tokens"] for row in rows}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return random_model(tmp_path_factory.mktemp("base"))


@pytest.mark.e2e
@pytest.mark.parametrize("adapter", [LORA, FULL], ids=["lora", "full"])
def test_learns_and_resumes_where_it_was(tmp_path, base, adapter, train, monkeypatch, capsys):
    """An undisturbed run, and one that is killed in step 7 and goes on from its checkpoint, in another round of its ten rows: the same
    numbers and weights."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run, again = gold_folder(whole, base, adapter), gold_folder(cut, base, adapter)
    assert train("sft", whole) == 0 and read(Outcome, run.outcome).finished
    output = capsys.readouterr().out
    assert "SFT, 24 steps, gold answers under `gold`" in output and "gold tokens" in output
    logged = cells(run)
    steps = range(1, 25)
    assert logged[24, "loss"] < logged[1, "loss"] and all(logged[step, "grad_norm"] > 0 and logged[step, "skipped"] == 0 for step in steps)
    assert all(0 <= logged[step, "mean_token_accuracy"] <= 1 and logged[step, "learning_rate"] == 3e-2 for step in steps)
    assert {metric for _, metric in logged} == {
        "loss", "grad_norm", "learning_rate", "entropy", "mean_token_accuracy", "skipped", "tokens"
    }  # fmt: skip
    counted = [logged[step, "tokens"] for step in steps]
    assert counted == sorted(counted) and 4 * 8 <= counted[0] <= 4 * 10, "4 pairs of 5 bytes, 3 or 4 more, and the end"
    assert pq.read_table(run.completions).num_rows == 0

    assert train("sft", cut, killed_in=7) is None and train("sft", cut) == 0
    first, second = read_attempts(again.attempts)
    assert (first.state, second.state, second.started.resumed_from) == ("killed", "finished", 6)
    assert cells(again) == logged
    weights = "adapter_model.safetensors" if adapter == LORA else "model.safetensors"
    assert (run.adapter / weights).read_bytes() == (again.adapter / weights).read_bytes()
    if adapter == FULL:
        before, after = load_file(base / weights), load_file(run.adapter / weights)
        assert before.keys() == after.keys() and not any(before[name].equal(after[name]) for name in after), "every weight moved"
    expected = {weights, "adapter_config.json" if adapter == LORA else "config.json"}
    assert expected <= set(os.listdir(run.adapter)) <= expected | {"generation_config.json"}
    _evaluated(whole, base, run, monkeypatch)


def _evaluated(folder, base, run, monkeypatch):
    """The shared evaluation loads what was trained: other samples than the untrained model's, of the same seed."""
    gate = Gate(name="said", kind="exact_match", settings={"column": "gold", "strip": True})
    card = EvaluateCard(
        experiment="small",
        model=ModelRef(base="tiny", path=str(base), revision="0", adapter=Adapter()),
        data=DatasetRef(path="data.jsonl", sha256=file_digest(folder / "data.jsonl")),
        scores=(gate,),
        samples=8,
        temperature=1.0,
        top_p=1.0,
        max_completion_length=6,
        device="cpu",
        versions={},
        code=code_versions(CodeTree(ROOT), ["stages.train.evaluate", "stages.train.rewards.exact_match"]),
    )
    write(folder / "runs/small/analysis/evaluate.card.json", card)
    monkeypatch.chdir(folder)
    for model in (run.root, run.root.parent / "untrained"):
        evaluate(model)
    tables = [pq.read_table(path / "evaluation.parquet").to_pylist() for path in (run.root, run.root.parent / "untrained")]
    assert [len(table) for table in tables] == [80, 80]
    written = ["".join(row["text"] for row in table) for table in tables]
    share = [sum(letter in "odevn" for letter in text) / max(1, len(text)) for text in written]
    assert share[0] > 0.3 > 0.1 > share[1], "a model that learns two words writes their letters"


def pairs(base, rows, max_length=24, tokenizer=None, **model):
    card = ModelRef(base="tiny", path=str(base), revision="0", adapter=LORA, **model)
    return gold_pairs(card, DatasetRef(path="x", answer="gold"), tokenizer or AutoTokenizer.from_pretrained(base), rows, max_length)


def test_the_loss_is_on_the_answer_and_its_end(base):
    """Tokens are bytes: 5 of the prompt, 4 of the answer, then the end of text, number 1. A pair is never cut."""
    (pair,) = pairs(base, ROWS[:1], max_length=10)
    assert AutoTokenizer.from_pretrained(base).decode(pair["input_ids"][:-1]) == "0 is\neven" and pair["input_ids"][-1] == 1
    assert pair["completion_mask"] == [0] * 5 + [1] * 5
    with pytest.raises(Stopped, match=r"1 of 2 pairs .* are longer than `max_length: 9`; `row-0` has 10 tokens") as caught:
        pairs(base, ROWS[:2], max_length=9)
    assert caught.value.failure == "data"
    with pytest.raises(Stopped, match="1 of 2 rows have no text under `gold`, the gold answer; first `row-x`"):
        pairs(base, [ROWS[0], {"id": "row-x", "prompt": "x is\n", "gold": " "}])


def test_an_answer_is_read_as_the_model_would_write_it():
    """A tokenizer that merges across the border of prompt and answer (`b` and `c` are one token): the prompt keeps its own tokens, as in
    sampling, and the answer is read by itself. Where nothing is merged, the whole decides; a closing token is not doubled."""

    class Merging:
        eos_token_id, bos_token, chat_template = 9, None, None

        def __init__(self, closes):
            self.closes = closes

        def __call__(self, text, add_special_tokens=True):
            ids, rest = [], text
            while rest:
                size = 2 if rest.startswith("bc") else 1
                ids.append({"a": 1, "b": 2, "c": 3, "bc": 4}[rest[:size]])
                rest = rest[size:]
            return {"input_ids": [*ids, 9] if self.closes and add_special_tokens else ids}

    model = ModelRef(base="tiny", path="x", revision="0", adapter=LORA)
    for closes in (False, True):
        rows = [{"id": "1", "prompt": "ab", "answer": "c"}, {"id": "2", "prompt": "ab", "answer": "a"}]
        first, second = gold_pairs(model, DatasetRef(path="x"), Merging(closes), rows, 9)
        assert first == {"input_ids": [1, 2, 3, 9], "completion_mask": [0, 0, 1, 1]}, closes
        assert second == {"input_ids": [1, 2, 1, 9], "completion_mask": [0, 0, 1, 1]}, closes


def test_a_chat_template_frames_the_prompt_alone(base):
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.chat_template = "{% for m in messages %}<{{ m.content }}>{% endfor %}{% if add_generation_prompt %}: {% endif %}"
    (pair,) = pairs(base, ROWS[:1], tokenizer=tokenizer, apply_chat_template=True)
    assert tokenizer.decode(pair["input_ids"][:-1]) == "<0 is\n>: even" and sum(pair["completion_mask"]) == 5
