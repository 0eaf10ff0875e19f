"""Per-step cost of octavo's recorder, gates bookkeeping, guard and callbacks over plain TRL with the same composed reward.

Two measures in one process. Alternating rounds of both sides give the ratio of CPU seconds a step, with the noise of a training step
(some per cent on a shared machine). The clock around octavo's own code (scoring without the gates' judging, guard, recorder) gives the
share of a step that is ours, which is far below that noise. The claim: under 2% of a step.
Needs the quickstart's base model and cards: run `make demo` first.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stages.contracts.artifact import read
from stages.contracts.grpo import GrpoSettings
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
    card = read(TrainCard[GrpoSettings], CARD)
    card = card.model_copy(update={"train": card.train.model_copy(update={"max_steps": STEPS, "save_steps": 10 * STEPS})})
    prepare("cpu")
    seconds: dict[str, list[float]] = {"plain TRL": [], "octavo": []}
    for number in range(ROUNDS):
        for name in sorted(seconds, reverse=number % 2 == 1):
            seconds[name].append(one_round(card, name))
            print(f"round {number + 1} {name}: {1000 * seconds[name][-1]:.1f} CPU-ms a step", flush=True)
    plain, ours = (statistics.median(seconds[name][1:]) for name in ("plain TRL", "octavo"))
    print(f"plain TRL {1000 * plain:.1f} ms, octavo {1000 * ours:.1f} ms a step: ratio {ours / plain:.3f} of medians")
    spread = [round(1000 * (max(found[1:]) - min(found[1:])) / plain / 10, 1) for found in seconds.values()]
    print(f"spread of the rounds: {spread[0]}% and {spread[1]}% of a step")
    share = CLOCK.seconds / (ROUNDS * STEPS) / ours
    print(f"octavo's own code: {1000 * CLOCK.seconds / (ROUNDS * STEPS):.2f} CPU-ms a step, {share:.2%} of a step (claim: under 2%)")


class Clock:
    """CPU seconds spent in the functions that it wraps; with sign -1, time that is taken off again."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any], sign: float = 1.0) -> Callable[..., Any]:
        def timed(*positional: Any, **named: Any) -> Any:
            begun = time.process_time()
            try:
                return function(*positional, **named)
            finally:
                self.seconds += sign * (time.process_time() - begun)

        return timed


CLOCK = Clock()


def one_round(card: TrainCard[GrpoSettings], name: str) -> float:
    """CPU seconds a step of one training, children (the sandbox) not counted: both sides score alike."""
    from transformers import set_seed

    from stages.train.callbacks import HistoryRecorder
    from stages.train.guards import NonfiniteGuard
    from stages.train.model import load_base
    from stages.train.progress import Progress
    from stages.train.recorder import Journal
    from stages.train.rewards.compose import compose
    from stages.train.scoring import TrainingReward
    from stages.train.stopping import Stopping
    from stages.train.trl import grouped_trainer

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
        recorder = HistoryRecorder(journal, reward, guard, Progress("bench", 1, STEPS), "a", Stopping(None, journal, 0))
        callbacks = [guard, recorder]
        reward.composed.score = CLOCK.around(reward.composed.score, sign=-1.0)
        guard.on_pre_optimizer_step = CLOCK.around(guard.on_pre_optimizer_step)
        recorder.on_log = CLOCK.around(recorder.on_log)
        scored = CLOCK.around(reward)
        scored.__name__ = reward.__name__
    else:
        composed = compose(card.reward)

        def reward(prompts: list[str], completions: list[str], id: list[str], **rest: Any) -> list[float | None]:
            return composed.score([Answer(text, by_id[name]) for text, name in zip(completions, id, strict=True)]).rewards

        callbacks = []
    function = scored if name == "octavo" else reward
    trainer = grouped_trainer(card, model, tokenizer, rows, reward=function, callbacks=callbacks, output=folder / "trainer")
    begun = time.process_time()
    trainer.train()
    spent = (time.process_time() - begun) / STEPS
    shutil.rmtree(folder)
    return spent


if __name__ == "__main__":
    main()
