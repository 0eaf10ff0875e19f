"""TRL's GRPOTrainer built from a card. Imported late: TRL costs seconds to load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from stages.contracts.run_card import TrainCard
from stages.train.data import Row
from stages.train.model import lora


def grpo_trainer(
    card: TrainCard,
    model: Any,
    tokenizer: Any,
    rows: Sequence[Row],
    *,
    reward: Callable[..., list[float | None]],
    callbacks: Sequence[TrainerCallback],
    output: Path,
    report_to: str = "none",
) -> Any:
    """A trainer that logs every step as it was: with TRL's defaults a NaN loss is logged as 0.0 and steps are averaged."""
    settings = GRPOConfig(
        output_dir=str(output),
        **card.train.model_dump(exclude={"algorithm", "guards"}),
        seed=card.seed,
        use_cpu=card.device == "cpu",
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_total_limit=2,
        report_to=report_to,
        disable_tqdm=True,
        dataloader_pin_memory=card.device != "cpu",
    )
    trainer = GRPOTrainer(
        model=model,
        args=settings,
        train_dataset=datasets.Dataset.from_list([{"prompt": row[card.data.prompt], "id": row["id"]} for row in rows]),
        processing_class=tokenizer,
        reward_funcs=[reward],
        peft_config=lora(card.model.adapter),
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer
