"""A model of a few thousand random weights whose tokens are bytes, and the folder of a run that trains it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import torch

from stages.contracts.algorithms import ALGORITHMS
from stages.contracts.artifact import write
from stages.contracts.code import code_versions
from stages.contracts.code_tree import CodeTree
from stages.contracts.files import file_digest
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.model import Adapter, DatasetRef, ModelRef
from stages.contracts.preflight_card import Permission
from stages.contracts.prompt import PromptFormat
from stages.contracts.reward import Gate, Reward
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import ROOT
from stages.contracts.training import TrainSettings

ROWS = [{"id": f"row-{number}", "prompt": f"{number} then\n", "gold": "odd" if number % 2 else "even"} for number in range(12)]

LORA = Adapter(r=4)

torch.set_num_threads(1)  # as a stage on a CPU: two threads beside a busy neighbour are many times slower on so small a model


def random_model(folder: Path, seed: int = 0) -> Path:
    """The model and its tokenizer, saved in the folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = {token: place for place, token in enumerate(["<pad>", "<eos>", *alphabet])}
    inner = Tokenizer(models.BPE(vocab=tokens, merges=[]))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", padding_side="left")
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = Qwen2Config(vocab_size=len(tokens), max_position_embeddings=64, eos_token_id=1, pad_token_id=0, bos_token_id=1, **sizes)
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(50.0)  # else no adapter could move the probabilities of so small a model
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run_folder(
    folder: Path,
    base: Path,
    settings: TrainSettings,
    gpus: int = 1,
    device: str = "cpu",
    adapter: Adapter = LORA,
    rows: Sequence[Mapping[str, str]] = ROWS,
    layout: PromptFormat | None = None,
) -> RunFolder:
    """`runs/small/short-s1` of a project: its card, rewarded for short completions (SFT: with gold answers), its permission, and the
    data. `gpus` is the number of processes: on a CPU each is one."""
    run = RunFolder(folder / "runs/small/short-s1")
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gate = Gate(name="chars", kind="length", settings={"formula": "2 - chars/16", "low": 1.0, "high": 2.0})
    gold = settings.algorithm == "sft"
    modules = [ALGORITHMS[settings.algorithm].stage]
    card = TrainCard[type(settings)](  # type: ignore[misc]
        experiment="small",
        condition="short",
        seed=1,
        null_control=False,
        model=ModelRef(base="tiny", path=str(base), revision="0", adapter=adapter),
        data=DatasetRef(path="data.jsonl", sha256=file_digest(folder / "data.jsonl"), answer="gold" if gold else None, layout=layout),
        reward=None if gold else Reward(name="short", gates=(gate,)),
        train=settings,
        device=device,
        gpus=gpus,
        versions={},
        code=code_versions(CodeTree(ROOT), modules if gold else [*modules, "stages.train.rewards.length"]),
    )
    write(run.card, card)
    if not gold:  # nothing is asked before a run learns gold answers
        write(ExperimentFolder(run.root.parent).permission("short"), Permission(condition="short", train=True))
    return run


def start(algorithm: str, folder: Path, *modules: Path, group: bool = False) -> subprocess.Popen[str]:
    """The stage of an algorithm, on that run. `modules`: folders that come first where modules are looked for. `group`: with a process
    group of its own."""
    path = os.pathsep.join([*map(str, modules), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "WANDB_MODE": "disabled"}
    command = [sys.executable, "-m", ALGORITHMS[algorithm].stage, "runs/small/short-s1"]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=group
    )


def finish(algorithm: str, folder: Path, *modules: Path) -> str:
    """Run that stage to its end, which must be a good one. Returns what it printed."""
    stage = start(algorithm, folder, *modules)
    output, _ = stage.communicate(timeout=900)
    assert stage.returncode == 0, output
    return output


def left(run: RunFolder) -> tuple[dict[tuple[int, str], tuple[float | None, str]], list[tuple[object, ...]], bytes]:
    """(step, metric) -> value as the last attempt logged it, without timings; completions; adapter."""
    rows = pq.read_table(run.history).to_pylist()
    history = {(row["step"], row["metric"]): (row["value"], row["state"]) for row in rows if "seconds" not in row["metric"]}
    completions = pq.read_table(run.completions).to_pylist()
    last = {row["step"]: row["attempt"] for row in completions}
    texts = [(row["step"], row["prompt_id"], row["text"], row["reward"]) for row in completions if row["attempt"] == last[row["step"]]]
    return history, texts, (run.adapter / "adapter_model.safetensors").read_bytes()
