"""Per-step cost of octavo's recorder, gates bookkeeping, guard and callbacks over plain TRL with the same composed reward.

One process, alternating rounds, so that both sides share the machine's state. CPU seconds a step; the claim is a ratio under 1.02.
Needs the quickstart's base model and cards: run `make demo` first.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stages.contracts.artifact import read
from stages.contracts.layout import RunFolder
from stages.contracts.plugin import Answer
from stages.contracts.run_card import TrainCard
from stages.train.data import read_rows
from stages.train.environment import prepare

STEPS, ROUNDS = 40, 6
CARD = RunFolder(Path("runs/quickstart/shaped-s1")).card


def main() -> None:
    if not CARD.exists():
        sys.exit(f"{CARD} is missing: run `make demo` first")
    card = read(TrainCard, CARD)
    card = card.model_copy(update={"train": card.train.model_copy(update={"max_steps": STEPS, "save_steps": 10 * STEPS})})
    prepare("cpu")
    seconds: dict[str, list[float]] = {"plain TRL": [], "octavo": []}
    for number in range(ROUNDS):
        for name in sorted(seconds, reverse=number % 2 == 1):
            seconds[name].append(one_round(card, name))
            print(f"round {number + 1} {name}: {1000 * seconds[name][-1]:.1f} CPU-ms a step", flush=True)
    plain, ours = (statistics.median(seconds[name][1:]) for name in ("plain TRL", "octavo"))
    print(f"plain TRL {1000 * plain:.1f} ms, octavo {1000 * ours:.1f} ms a step, ratio {ours / plain:.3f} (claim: under 1.02)")


def one_round(card: TrainCard, name: str) -> float:
    """CPU seconds a step of one training, children (the sandbox) not counted: both sides score alike."""
    from transformers import set_seed

    from stages.train.callbacks import HistoryRecorder
    from stages.train.guards import NonfiniteGuard
    from stages.train.model import load_base
    from stages.train.progress import Progress
    from stages.train.recorder import Journal
    from stages.train.rewards.compose import compose
    from stages.train.scoring import TrainingReward
    from stages.train.trainer import grpo_trainer

    rows = read_rows(card.data, "/data")
    by_id = {row["id"]: row for row in rows}
    set_seed(card.seed)
    model, tokenizer = load_base(card.model, card.device)
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    folder = Path(tempfile.mkdtemp())
    reward: Any
    if name == "octavo":
        journal = Journal(folder)
        reward = TrainingReward(
            card.reward, rows=by_id, seed=card.seed, group=card.train.num_generations, ends=ends, journal=journal, attempt="a"
        )
        guard = NonfiniteGuard(card.train.guards)
        callbacks = [guard, HistoryRecorder(journal, reward, guard, Progress("bench", 1, STEPS), "a")]
    else:
        composed = compose(card.reward)

        def reward(prompts: list[str], completions: list[str], id: list[str], **rest: Any) -> list[float | None]:
            return composed.score([Answer(text, by_id[name]) for text, name in zip(completions, id, strict=True)]).rewards

        callbacks = []
    trainer = grpo_trainer(card, model, tokenizer, rows, reward=reward, callbacks=callbacks, output=folder / "trainer")
    begun = time.process_time()
    trainer.train()
    spent = (time.process_time() - begun) / STEPS
    shutil.rmtree(folder)
    return spent


if __name__ == "__main__":
    main()
