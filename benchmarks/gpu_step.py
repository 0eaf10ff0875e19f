"""Seconds of a training step on one GPU: plain TRL, octavo's compiled engine, and transformers' static cache over the merged copy.

    python benchmarks/gpu_step.py [--parts 1.5b,7b,7b-nf4,ppo] [--budget SECONDS] [--tiny]

Models have random weights and the shapes of a 1.5B Qwen and a 7B Llama; a step samples 16 completions of one prompt, 256 tokens each, as in
seed 1. The sides of a part share one loaded model, one LoRA setting and one reward; `recorded` is `compiled` with octavo's own gates, guard
and history recorder, and prints their share of a step. The first step of a side, which compiles, is printed and not counted. A side that no
longer fits into the budget is left out. `--tiny` runs everything on a CPU, to see that it works: its seconds mean nothing. All parts take
about seven minutes on an H200.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from stages.contracts.model import Adapter
from stages.contracts.ppo import PpoSettings
from stages.contracts.training import GenerationSettings, OwnGenerationSettings
from stages.train.environment import prepare

SHAPES: dict[str, dict[str, int]] = {
    "7b": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 30, "num_attention_heads": 32, "num_key_value_heads": 32},
    "1.5b": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2},
}
TINY = {"hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
VOCABULARY = {"7b": 102_400, "1.5b": 151_936}
ROWS = [{"id": f"row-{number}", "prompt": "".join(chr(97 + (number * 7 + k) % 26) for k in range(200))} for number in range(64)]
ADAPTER = Adapter(r=16, lora_alpha=32, target_modules=("q_proj", "k_proj", "v_proj", "o_proj"))
PARTS = {"1.5b": ("1.5b", False), "7b": ("7b", False), "7b-nf4": ("7b", True)}
SIDES = {"plain": 2, "compiled": 4, "recorded": 4, "static": 4}
"""Side -> steps, the first of them not counted."""
SECONDS = {"plain": 45.0, "compiled": 70.0, "recorded": 70.0, "static": 70.0}
"""What a side may take on an H200; a side that does not fit into the budget is left out."""


def make_model(folder: Path, shape: str, tiny: bool, cuda: bool) -> Path:
    """Random weights of a shape and a tokenizer of 400 characters, saved once."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    path = folder / shape
    if (path / "config.json").exists():
        return path
    vocabulary = {chr(33 + place) if place < 90 else f"<t{place}>": place for place in range(400)} | {"<pad>": 400, "<eos>": 401}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="!"))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", padding_side="left").save_pretrained(path)
    sizes = {**TINY, "vocab_size": 512} if tiny else {**SHAPES[shape], "vocab_size": VOCABULARY[shape]}
    ids = {"max_position_embeddings": 4096, "pad_token_id": 400, "eos_token_id": 401, "bos_token_id": None}
    torch.set_default_dtype(torch.bfloat16 if cuda else torch.float32)
    with torch.device("cuda" if cuda else "cpu"):
        model = (
            LlamaForCausalLM(LlamaConfig(**sizes, **ids))
            if shape == "7b"
            else Qwen2ForCausalLM(Qwen2Config(**sizes, **ids, tie_word_embeddings=True))
        )
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(path)
    return path


def load(path: Path, nf4: bool, cuda: bool) -> tuple[Any, Any]:
    """(model, tokenizer), in bfloat16 on a GPU; NF4 as QLoRA loads it."""
    import torch
    from peft import prepare_model_for_kbit_training
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    dtype = torch.bfloat16 if cuda else torch.float32
    quantised: dict[str, Any] = {}
    if nf4:
        quantised["quantization_config"] = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, device_map={"": 0 if cuda else "cpu"}, **quantised)
    if nf4:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    return model, AutoTokenizer.from_pretrained(path, padding_side="left")


class Clock:
    """Wall seconds inside of the functions that it wraps; the device is waited for before and after."""

    def __init__(self, cuda: bool) -> None:
        self.cuda, self.seconds = cuda, 0.0

    def now(self) -> float:
        if self.cuda:
            import torch

            torch.cuda.synchronize()
        return time.perf_counter()

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*positional: Any, **named: Any) -> Any:
            begun = self.now()
            try:
                return function(*positional, **named)
            finally:
                self.seconds += self.now() - begun

        return timed

    def taken(self) -> float:
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def static_cache(rollouts: Any) -> None:
    """Let transformers' compiled static cache sample from the merged copy, in place of our decoder."""
    import torch

    from stages.train.decoding import rollout_model

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def sampled(policy: Any, ids: Any, attention: Any, config: Any) -> Any:
        if rollouts._model is None:
            rollouts._model = rollout_model(policy)
        rollouts._model.refresh()
        chosen = copy.deepcopy(config)
        chosen.cache_implementation, chosen.disable_compile = "static", False
        return rollouts._model.model.generate(input_ids=ids, attention_mask=attention, generation_config=chosen)

    rollouts.sampled = sampled


def recorded_parts(tokenizer: Any, steps: int, folder: Path, own: Clock) -> tuple[Callable[..., Any], list[Any]]:
    """octavo's reward function and listeners of a run, their seconds counted by `own`."""
    from stages.contracts.reward import Reward
    from stages.contracts.training import Guards
    from stages.train.callbacks import HistoryRecorder
    from stages.train.guards import NonfiniteGuard
    from stages.train.recorder import Journal
    from stages.train.run import Stopping
    from stages.train.scoring import TrainingReward

    gates = [
        {"name": "format", "kind": "format", "settings": {"pattern": "(?s).*"}, "on_fail": 0.0},
        {"name": "length", "kind": "length", "settings": {"formula": "min(1, chars / 4096)", "low": 0.0, "high": 1.0}},
    ]
    journal = Journal(folder / "journal")
    card = Reward.model_validate({"name": "length", "gates": gates})
    reward = TrainingReward(card, rows=ROWS, seed=1, group=16, ends={tokenizer.eos_token_id}, journal=journal, attempt="a1")
    guard = NonfiniteGuard(Guards())
    work: Any = SimpleNamespace(  # what the recorder asks of an attempt
        name="run",
        started=SimpleNamespace(number=1, attempt="a1"),
        card=SimpleNamespace(train=SimpleNamespace(max_steps=steps)),
        steps_before=0,
        journal=journal,
        stopping=Stopping(None, journal, 0),
    )
    recorder = HistoryRecorder(work, guard, reward, None, None, 0, None)
    recorder.on_log = own.around(recorder.on_log)  # type: ignore[method-assign]
    guard.on_pre_optimizer_step = own.around(guard.on_pre_optimizer_step)  # type: ignore[method-assign]
    scored = own.around(reward)
    scored.__name__ = "reward"
    return scored, [guard, recorder]


def grpo_side(model: Any, tokenizer: Any, side: str, steps: int, tokens: int, folder: Path, cuda: bool) -> list[tuple[float, float]]:
    """(whole step, generation) seconds of each step of TRL's GRPO with one way to sample."""
    import datasets
    from peft import LoraConfig
    from transformers import PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from stages.train.rollouts import Rollouts

    def reward(completions: list[str], **rest: Any) -> list[float]:
        return [2 - len(text) / 4096 for text in completions]

    settings = GRPOConfig(
        output_dir=str(folder / "trainer"),
        max_steps=steps,
        learning_rate=1e-6,
        per_device_train_batch_size=16,
        num_generations=16,
        beta=0.04,
        temperature=0.9,
        max_completion_length=tokens,
        bf16=cuda,
        use_cpu=not cuda,
        gradient_checkpointing=False,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=1,
    )
    adapter = LoraConfig(r=16, lora_alpha=32, target_modules=list(ADAPTER.target_modules), task_type="CAUSAL_LM")
    own = Clock(cuda)
    score, listeners = recorded_parts(tokenizer, steps, folder, own) if side == "recorded" else (reward, [])
    trainer = GRPOTrainer(
        model=model,
        args=settings,
        reward_funcs=[score],
        train_dataset=datasets.Dataset.from_list(ROWS),
        processing_class=tokenizer,
        peft_config=adapter,
        callbacks=listeners,
    )
    ledger: dict[str, str] = {}
    if side != "plain":
        rollouts = Rollouts(GenerationSettings(engine="compiled"), None, ledger)
        if side == "static":
            static_cache(rollouts)
        rollouts.attach(trainer)
    generating, measured, own_seconds = Clock(cuda), list[tuple[float, float]](), list[float]()
    trainer._generate = generating.around(trainer._generate)
    trainer.remove_callback(PrinterCallback)

    class Steps(TrainerCallback):  # type: ignore[misc]
        begun = 0.0

        def on_step_begin(self, *rest: Any, **named: Any) -> None:
            self.begun = generating.now()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **rest: Any) -> None:
            if "loss" in (logs or {}):
                measured.append((generating.now() - self.begun, generating.taken()))
                own_seconds.append(own.taken())

    trainer.add_callback(Steps())
    try:
        trainer.train()
    finally:
        trainer.model.unload()  # the next side puts its own adapter on the same base model
        model.__dict__.pop("peft_config", None)
    if ledger:
        print(f"  {ledger}", flush=True)
    if side == "recorded":
        shares = [seconds / whole for seconds, (whole, _) in zip(own_seconds[1:], measured[1:], strict=True)]
        print(f"  own code: {statistics.median(own_seconds[1:]) * 1000:.1f} ms, {statistics.median(shares):.2%} of a step", flush=True)
    return measured


def ppo_side(model: Any, tokenizer: Any, side: str, steps: int, tokens: int, folder: Path, cuda: bool) -> list[tuple[float, float]]:
    """The same of octavo's PPO. `plain` samples with transformers as it is."""
    import torch

    from stages.train.model import end_tokens
    from stages.train.ppo_policy import Policy
    from stages.train.ppo_trainer import PpoTrainer
    from stages.train.rollouts import Rollouts

    settings = PpoSettings.model_validate(
        {"algorithm": "ppo", "max_steps": steps, "learning_rate": 1e-6, "batch_size": 16, "mini_batch_size": 8, "ppo_epochs": 1}
        | {"max_completion_length": tokens, "bf16": cuda, "temperature": 0.9}
    )
    torch.manual_seed(1)
    policy = Policy(model, ADAPTER, False)
    if side != "plain":
        policy.rollouts = Rollouts(OwnGenerationSettings(), None, {})
        if side == "static":
            static_cache(policy.rollouts)
    generating, whole, sampling = Clock(cuda), list[float](), list[float]()
    policy.sample = generating.around(policy.sample)  # type: ignore[method-assign]

    class Listener:
        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float]) -> None:
            whole.append(logs["step_time"])
            sampling.append(generating.taken())

        def on_step_end(self, *rest: Any, **named: Any) -> None: ...

        def on_pre_optimizer_step(self, *rest: Any, **named: Any) -> None: ...

    def reward(prompts: list[str], completions: list[str], ids: list[list[int]], **rest: Any) -> list[float | None]:
        return [2 - len(text) / 4096 for text in completions]

    rows = [(row, row["prompt"]) for row in ROWS]
    ends = end_tokens(model, tokenizer)
    trainer = PpoTrainer(settings, policy, tokenizer, rows, ends=ends, seed=1, reward=reward, callbacks=[Listener()])
    try:
        trainer.train(lambda _: None)
    finally:
        policy.network.unload()
        model.__dict__.pop("peft_config", None)
    return list(zip(whole, sampling, strict=True))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tiny", action="store_true")
    options.add_argument("--budget", type=float, default=440.0)
    options.add_argument("--parts", default=",".join([*PARTS, "ppo"]))
    options.add_argument("--sides", default=",".join(SIDES))
    chosen = options.parse_args()
    begun = time.monotonic()
    import torch
    from transformers.utils import logging

    cuda = torch.cuda.is_available() and not chosen.tiny
    if not cuda and not chosen.tiny:
        raise SystemExit("no GPU here; --tiny shows on a CPU that it works")
    prepare("cuda" if cuda else "cpu")
    logging.disable_progress_bar()
    print(f"{torch.cuda.get_device_name() if cuda else 'cpu'}, torch {torch.__version__}", flush=True)
    folder = Path(tempfile.mkdtemp())
    for part in chosen.parts.split(","):
        shape, nf4 = PARTS.get(part, ("1.5b", False))
        started = time.monotonic()
        model, tokenizer = load(make_model(folder, shape, chosen.tiny, cuda), nf4, cuda)
        print(f"{part}: model made and loaded in {time.monotonic() - started:.0f} s", flush=True)
        plain: float | None = None
        for side in chosen.sides.split(","):
            if SECONDS[side] > chosen.budget - (time.monotonic() - begun):
                print(f"{part} {side}: left out, the budget is spent", flush=True)
                continue
            started = time.monotonic()
            try:
                measure = ppo_side if part == "ppo" else grpo_side
                steps = measure(model, tokenizer, side, SIDES[side], 8 if chosen.tiny else 256, folder, cuda)
            except Exception:
                traceback.print_exc()
                print(f"{part} {side}: FAILED", flush=True)
                continue
            whole, generation = (statistics.median(step[place] for step in steps[1:]) for place in (0, 1))
            plain = whole if side == "plain" else plain
            ratio = f", {plain / whole:.2f}x plain" if plain and side != "plain" else ""
            memory = f", peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if cuda else ""
            print(
                f"{part} {side}: {whole:.2f} s a step, generation {generation:.2f} (first {steps[0][0]:.1f}){ratio}{memory}"
                f" [{time.monotonic() - started:.0f} s]",
                flush=True,
            )
            if cuda:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
        del model


if __name__ == "__main__":
    main()
