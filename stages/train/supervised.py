"""Stage: train one run on gold answers (supervised fine-tuning, SFT) with TRL: a LoRA adapter, or all weights of the model.

python -m stages.train.supervised runs/<experiment>/<run>
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import main
from stages.contracts.training import SftSettings
from stages.train.attempts import Stopped
from stages.train.data import Row
from stages.train.model import lora, prompt_texts
from stages.train.run import Work, attempt
from stages.train.trl import CHECKPOINT, prepared, settings, train_to_end

MODULE = "stages.train.supervised"


def train(folder: Path) -> int:
    """One attempt of a run; the exit code (stages/train/run.py)."""
    return attempt(folder, TrainCard[SftSettings], MODULE, fit, CHECKPOINT)


def fit(work: Work[SftSettings]) -> Path:
    """Train to the end and return the checkpoint that holds the adapter or the model."""
    import datasets
    from transformers import PrinterCallback
    from trl import SFTConfig, SFTTrainer

    card = work.card
    counted = [row["tokens"] for row in work.journal.history_rows() if row["step"] == work.steps_before and row["tokens"] is not None]
    with prepared(work, tokens_before=counted[-1] if counted else 0) as parts:  # as the last attempt that made the step counted them
        pairs = gold_pairs(card.model, card.data, parts.tokenizer, work.rows, card.train.max_length)
        training = SFTTrainer(
            model=parts.model,
            args=SFTConfig(**settings(card, work.output), completion_only_loss=True),
            train_dataset=datasets.Dataset.from_list(pairs),  # tokens, so TRL neither merges nor cuts texts
            processing_class=parts.tokenizer,
            peft_config=lora(card.model.adapter),
            callbacks=parts.listeners,
        )
        training.remove_callback(PrinterCallback)
        return train_to_end(work, training)


def gold_pairs(model: ModelRef, data: DatasetRef, tokenizer: Any, rows: Sequence[Row], max_length: int) -> list[dict[str, list[int]]]:
    """Token ids of each row, and a mask that is 1 on the answer and the end of text behind it. The prompt has the tokens that it has
    when the model is sampled. Raises Stopped (data) for a row without an answer, or with a pair longer than `max_length`: a cut answer
    would teach never to end."""
    key = data.answer or "answer"
    lacking = [row["id"] for row in rows if not isinstance(row.get(key), str) or not row[key].strip()]
    if lacking:
        raise Stopped("data", f"{len(lacking)} of {len(rows)} rows have no text under `{key}`, the gold answer; first `{lacking[0]}`")
    prompts = prompt_texts(model, data, tokenizer, rows)
    pairs = [_pair(tokenizer, prompt, row[key]) for prompt, row in zip(prompts, rows, strict=True)]
    long = [(len(pair["input_ids"]), row["id"]) for pair, row in zip(pairs, rows, strict=True) if len(pair["input_ids"]) > max_length]
    if long:
        size, name = max(long)
        raise Stopped(
            "data",
            f"{len(long)} of {len(rows)} pairs of prompt and answer are longer than `max_length: {max_length}`; `{name}` has {size} tokens",
        )
    return pairs


def _pair(tokenizer: Any, prompt: str, answer: str) -> dict[str, list[int]]:
    """The answer continues the prompt's own tokens: where the tokenizer would merge across the border, it is read by itself."""
    before, whole = tokenizer(prompt)["input_ids"], tokenizer(prompt + answer)["input_ids"]
    end = tokenizer.eos_token_id
    if before[-1:] == whole[-1:] == [end]:  # a tokenizer that closes every text
        before, whole = before[:-1], whole[:-1]
    own = whole[: len(before)] == before and len(whole) > len(before)
    after = whole[len(before) :] if own else tokenizer(answer, add_special_tokens=False)["input_ids"]
    after = [*after, end]
    return {"input_ids": [*before, *after], "completion_mask": [0] * len(before) + [1] * len(after)}


if __name__ == "__main__":
    main(train, "python -m stages.train.supervised runs/<experiment>/<run>")
