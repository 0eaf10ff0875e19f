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
from stages.train.model import load_base, lora
from stages.train.progress import Progress
from stages.train.quantized import for_training
from stages.train.recorder import Journal
from stages.train.run import Work, attempt
from stages.train.tracking import tracked
from stages.train.with_trl import CHECKPOINT, settings, to_the_end

MODULE = "stages.train.supervised"


def train(folder: Path) -> int:
    """One attempt of a run; the exit code (stages/train/run.py)."""
    return attempt(folder, TrainCard[SftSettings], MODULE, _fit, CHECKPOINT)


def _fit(work: Work[SftSettings]) -> Path:
    from stages.train.callbacks import HistoryRecorder, Tracker
    from stages.train.guards import NonfiniteGuard

    card = work.card
    model, tokenizer = load_base(card.model, card.device, bf16=card.train.bf16)
    model = for_training(card.model, model, gradient_checkpointing=card.train.gradient_checkpointing)
    pairs = gold_pairs(card.model, card.data, tokenizer, work.rows, card.train.max_length)
    guard = NonfiniteGuard(card.train.guards, work.journal.in_a_row(work.steps_before))
    progress = Progress(work.name, work.started.number, card.train.max_steps, begin_at=work.steps_before)
    recorder = HistoryRecorder(
        work.journal,
        None,
        guard,
        progress,
        work.started.attempt,
        work.stopping,
        tokens_before=_tokens(work.journal, work.steps_before),
    )
    with tracked(card, experiment=card.experiment, group=card.condition, name=work.run.name, attempt=work.started.attempt) as sink:
        listeners = [guard, recorder, *([Tracker(sink)] if sink else [])]
        training = trainer(card, model, tokenizer, pairs, callbacks=listeners, output=work.output)
        return to_the_end(work, training, tokenizer)


def trainer(
    card: TrainCard[SftSettings],
    model: Any,
    tokenizer: Any,
    pairs: list[dict[str, list[int]]],
    *,
    callbacks: list[Any],
    output: Path,
) -> Any:
    """TRL's trainer, imported late: it costs seconds to load. It gets tokens, so that it neither merges nor cuts what they say."""
    import datasets
    from transformers import PrinterCallback
    from trl import SFTConfig, SFTTrainer

    made = SFTTrainer(
        model=model,
        args=SFTConfig(**settings(card, output), completion_only_loss=True),
        train_dataset=datasets.Dataset.from_list(pairs),
        processing_class=tokenizer,
        peft_config=lora(card.model.adapter) if card.model.adapter.kind == "lora" else None,
        callbacks=callbacks,
    )
    made.remove_callback(PrinterCallback)
    return made


def _tokens(journal: Journal, step: int) -> int:
    """Tokens up to a step, as the last attempt that made it counted them."""
    counted = [row["tokens"] for row in journal.history_rows() if row["step"] == step and row["tokens"] is not None]
    return counted[-1] if counted else 0


if __name__ == "__main__":
    main(train, "python -m stages.train.supervised runs/<experiment>/<run>")
