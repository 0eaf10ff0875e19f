"""Seconds of a PPO update on one GPU, sampled by transformers and by the compiled engine; the rest of the update is the same code.

    python benchmarks/gpu_ppo.py [--tiny] [--updates N]

The 1.5B Qwen shape with random weights in bfloat16, 16 completions of 256 tokens an update, one pass in minibatches of 8, as
`gpu_step.py` has for GRPO. `--tiny` runs it on a CPU, to see that it works: its seconds mean nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from gpu_step import ROWS, Clock, make_model

from stages.contracts.generation import OwnGenerationSettings
from stages.contracts.model_card import AdapterCard, ModelCard
from stages.contracts.ppo import PpoSettings
from stages.train.environment import prepare
from stages.train.model import end_tokens, load_base
from stages.train.ppo_policy import Policy
from stages.train.ppo_trainer import PpoTrainer
from stages.train.rollouts import METRIC, Rollouts


class Listener:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float]) -> None:
        self.rows.append(dict(logs))

    def on_step_end(self, *rest: Any, **named: Any) -> None: ...

    def on_pre_optimizer_step(self, *rest: Any, **named: Any) -> None: ...


def measure(folder: Path, engine: str, tokens: int, updates: int, cuda: bool) -> None:
    """Some updates with one engine, and a line of what they took."""
    card = ModelCard(base="1.5b", path=str(folder), revision="0", adapter=AdapterCard(r=16, lora_alpha=32))
    settings = PpoSettings.model_validate(
        {"algorithm": "ppo", "max_steps": updates, "learning_rate": 1e-6, "batch_size": 16, "mini_batch_size": 8, "ppo_epochs": 1}
        | {"max_completion_length": tokens, "bf16": cuda, "temperature": 0.9}
    )
    model, tokenizer = load_base(card, "cuda" if cuda else "cpu", bf16=cuda)
    torch.manual_seed(1)
    policy = Policy(model, card.adapter, False)
    said: dict[str, str] = {}
    if engine == "compiled":
        policy.rollouts = Rollouts(OwnGenerationSettings(), None, said)
    clock, listener = Clock(cuda), Listener()
    policy.sample = clock.around(policy.sample)  # type: ignore[method-assign]
    taken: list[float] = []
    rows = [(row, row["prompt"]) for row in ROWS]

    def reward(prompts: list[str], completions: list[str], ids: list[list[int]], **rest: Any) -> list[float | None]:
        taken.append(clock.taken())
        return [2 - len(text) / 4096 for text in completions]

    ends = end_tokens(model, tokenizer)
    PpoTrainer(settings, policy, tokenizer, rows, ends=ends, seed=1, reward=reward, callbacks=[listener]).train(lambda _: None)
    whole = [row["step_time"] for row in listener.rows]
    differ = [row[f"{METRIC}/mean"] for row in listener.rows if f"{METRIC}/mean" in row]
    print(
        f"ppo {engine}: {statistics.median(whole[1:]):.2f} s an update ({min(whole[1:]):.2f}-{max(whole[1:]):.2f}; first {whole[0]:.1f}), "
        f"generation {statistics.median(taken[1:]):.2f}; {said.get('generation', 'transformers')}"
        + (f", log-probabilities differ by {max(differ):.5f} in the mean" if differ else ""),
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tiny", action="store_true")
    options.add_argument("--updates", type=int, default=4)
    chosen = options.parse_args()
    cuda = torch.cuda.is_available() and not chosen.tiny
    if not cuda and not chosen.tiny:
        print("no GPU here; --tiny shows on a CPU that it works")
        return
    prepare("cuda" if cuda else "cpu")
    path = make_model(Path(tempfile.mkdtemp()), "1.5b", chosen.tiny, cuda)
    for engine in ("transformers", "compiled"):
        measure(path, engine, 8 if chosen.tiny else 256, chosen.updates, cuda)


if __name__ == "__main__":
    main()
