"""Stage: train one run on gold answers (supervised fine-tuning, SFT) with TRL: a LoRA adapter, or all weights of the model.

python -m stages.train.supervised runs/<experiment>/<run>
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stages.contracts.run_card import TrainCard
from stages.contracts.sft import SftSettings
from stages.contracts.stage import main
from stages.train.gold import gold_pairs
from stages.train.model import lora
from stages.train.recorder import Journal
from stages.train.run import Work, attempt
from stages.train.trl import CHECKPOINT, prepared, settings, train_to_end

MODULE = "stages.train.supervised"


def train(folder: Path) -> int:
    """One attempt of a run; the exit code (stages/train/run.py)."""
    return attempt(folder, TrainCard[SftSettings], MODULE, fit, CHECKPOINT)


def fit(work: Work[SftSettings]) -> Path:
    """Train to the end and return the checkpoint that holds the adapter or the model."""
    card = work.card
    with prepared(work, tokens_before=_tokens(work.journal, work.steps_before)) as parts:
        pairs = gold_pairs(card.model, card.data, parts.tokenizer, work.rows, card.train.max_length)
        training = trainer(card, parts.model, parts.tokenizer, pairs, callbacks=parts.listeners, output=work.output)
        return train_to_end(work, training, parts.tokenizer)


def trainer(
    card: TrainCard[SftSettings], model: Any, tokenizer: Any, pairs: list[dict[str, list[int]]], *, callbacks: list[Any], output: Path
) -> Any:
    """TRL's trainer. It gets tokens, so it neither merges nor cuts texts."""
    import datasets
    from transformers import PrinterCallback
    from trl import SFTConfig, SFTTrainer

    training = SFTTrainer(
        model=model,
        args=SFTConfig(**settings(card, output), completion_only_loss=True),
        train_dataset=datasets.Dataset.from_list(pairs),
        processing_class=tokenizer,
        peft_config=lora(card.model.adapter) if card.model.adapter.kind == "lora" else None,
        callbacks=callbacks,
    )
    training.remove_callback(PrinterCallback)
    return training


def _tokens(journal: Journal, step: int) -> int:
    """Tokens up to a step, as the last attempt that made it counted them."""
    counted = [row["tokens"] for row in journal.history_rows() if row["step"] == step and row["tokens"] is not None]
    return counted[-1] if counted else 0


if __name__ == "__main__":
    main(train, "python -m stages.train.supervised runs/<experiment>/<run>")
