"""Stage: make a base model from nothing. Corpus, tokenizer, supervised pre-training with TRL's SFTTrainer.

python -m stages.train.pretrain runs/_models/<name>
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from stages.contracts.files import make_folder
from stages.contracts.layout import CHECKPOINTS, ModelFolder
from stages.contracts.plugin import CORPORA
from stages.contracts.pretrain_card import ArchitectureSettings, PretrainCard
from stages.contracts.stage import card_id, main, open_card
from stages.train import interrupts
from stages.train.corpus import labelled
from stages.train.environment import prepare
from stages.train.progress import Progress
from stages.train.recorder import cell, value_and_state, write_history

MODULE = "stages.train.pretrain"


def pretrain(folder: Path) -> None:
    """Write `model/` (weights, configuration, tokenizer) and `history.parquet` of the pre-training."""
    output = ModelFolder(folder)
    card = open_card(PretrainCard, output.card, [MODULE], lambda card: [f"{CORPORA}.{card.corpus.kind}"])
    identity = card_id(card)
    prepare("cpu")
    interrupts.install_handlers()
    print(f"{card.name}: a base model from {card.corpus.rows} generated pairs, {card.pretrain.max_steps} steps", flush=True)
    rows = [{"prompt": problem.row["prompt"], "completion": completion} for problem, _, completion in labelled(card.corpus)]

    import datasets
    from transformers import PrinterCallback, TrainerCallback, set_seed
    from transformers.utils import logging
    from trl import SFTConfig, SFTTrainer

    logging.disable_progress_bar()
    tokenizer = _tokenizer([row["prompt"] + row["completion"] for row in rows], card.architecture)
    set_seed(card.pretrain.seed)
    model = _model(tokenizer, card.architecture)
    scratch = CHECKPOINTS / identity
    settings = SFTConfig(
        output_dir=str(scratch),
        **card.pretrain.model_dump(),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = SFTTrainer(model=model, args=settings, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer)
    trainer.remove_callback(PrinterCallback)
    progress = Progress(card.name, 1, card.pretrain.max_steps)

    class Shown(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **rest: Any) -> None:
            if logs and "loss" in logs:
                progress.step(state.global_step, {"loss": cell(logs["loss"])})

    trainer.add_callback(Shown())
    trainer.train()
    make_folder(output.model)
    trainer.model.save_pretrained(output.model)
    tokenizer.save_pretrained(output.model)
    write_history(output.history, _history(trainer.state.log_history), card_id=identity, attempt="pretrain")
    shutil.rmtree(scratch, ignore_errors=True)


def _tokenizer(texts: list[str], architecture: ArchitectureSettings) -> Any:
    """Byte-level BPE with single digits, so that numbers are spelled out; left padding, as generation needs it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=architecture.vocab_size,
        special_tokens=["<pad>", "<bos>", "<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        padding_side="left",
        model_max_length=architecture.max_position_embeddings,
    )


def _model(tokenizer: Any, architecture: ArchitectureSettings) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = architecture.model_dump(exclude={"vocab_size"})
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    heads = architecture.num_attention_heads
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=heads, tie_word_embeddings=True, **sizes, **ids))


def _history(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for entry in log:
        for metric in ("loss", "grad_norm", "learning_rate"):
            if metric in entry:
                row = {"attempt": "pretrain", "step": entry["step"], "tokens": entry.get("num_tokens"), "seconds": None}
                rows.append({**row, "metric": metric, **value_and_state(cell(entry[metric]))})
    return rows


if __name__ == "__main__":
    main(pretrain, "python -m stages.train.pretrain runs/_models/<name>")
