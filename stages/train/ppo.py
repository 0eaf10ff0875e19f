"""Stage: train one run with PPO and a LoRA adapter. The trainer is octavo's own: TRL's was removed in 1.13.

python -m stages.train.ppo runs/<experiment>/<run>
"""

from __future__ import annotations

from pathlib import Path

from stages.contracts.ppo import PpoSettings
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import main
from stages.contracts.training import OwnGenerationSettings
from stages.train import interrupts
from stages.train.determinism import sampling
from stages.train.model import prompt_texts
from stages.train.run import Work, attempt
from stages.train.trl import CHECKPOINT, engine, prepared, saved_checkpoint

MODULE = "stages.train.ppo"
FILES = (*CHECKPOINT, "value_head.pt")
"""Files of a complete checkpoint beside the weights (`save` of stages/train/ppo_trainer.py writes them)."""


def train(folder: Path) -> int:
    """One attempt of a run; the exit code (stages/train/run.py)."""
    return attempt(folder, TrainCard[PpoSettings], MODULE, fit, FILES)


def fit(work: Work[PpoSettings]) -> Path:
    """Train to the end and return the checkpoint that holds the adapter."""
    from transformers import set_seed

    from stages.train.ppo_policy import Policy
    from stages.train.ppo_trainer import PpoTrainer, restore, save
    from stages.train.rollouts import Rollouts

    card, settings = work.card, work.card.train
    with prepared(work) as parts:
        set_seed(card.seed)
        policy = Policy(parts.model, card.model.adapter, settings.gradient_checkpointing)
        if engine(card) == "compiled":
            policy.rollouts = Rollouts(settings.generation or OwnGenerationSettings(), parts.logits, work.notes, parts.stops)
        policy.sample = parts.generating.around(sampling()(policy.sample))  # type: ignore[method-assign]
        texts = prompt_texts(card.model, card.data, parts.tokenizer, work.rows)
        trainer = PpoTrainer(
            settings,
            policy,
            parts.tokenizer,
            list(zip(work.rows, texts, strict=True)),
            ends=parts.ends,
            stops=parts.stops,
            seed=card.seed,
            reward=parts.reward,
            callbacks=parts.listeners,
        )
        if work.checkpoint:
            restore(trainer, work.checkpoint[0])
        with interrupts.saving_first():
            trainer.train(lambda trained: save(trained, work.output))
    return saved_checkpoint(work, FILES)


if __name__ == "__main__":
    main(train, "python -m stages.train.ppo runs/<experiment>/<run>")
