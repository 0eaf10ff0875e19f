"""Loading base models and adapters, and sampling from them without a trainer (TRL costs seconds to import)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stages.contracts.diagnostic import StageError
from stages.contracts.model_card import AdapterCard, ModelCard


@dataclass(frozen=True)
class Sampled:
    """One completion: text without special tokens, its length in tokens (end of text included), and whether it was cut."""

    text: str
    tokens: int
    truncated: bool


def load_base(card: ModelCard, device: Literal["cpu", "cuda"], bf16: bool = False) -> tuple[Any, Any]:
    """(model, tokenizer) of a card. Raises StageError S203 when the folder is missing or no model."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    if not Path(card.path).is_dir():
        raise StageError(
            "S203",
            f"no model at {card.path}",
            why="the base model is made or fetched before training",
            fix="dvc repro",
            pointer="/model/base",
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(card.path, padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(card.path, dtype=torch.bfloat16 if bf16 else torch.float32)
    except (OSError, ValueError) as error:
        raise StageError(
            "S203",
            f"{card.path} does not load: {error}",
            why="transformers must be able to read it",
            fix="dvc repro -f",
            pointer="/model/base",
        ) from None
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.to(device), tokenizer


def lora(card: AdapterCard) -> Any:
    """PEFT's LoraConfig of a card."""
    from peft import LoraConfig

    modules = card.target_modules if isinstance(card.target_modules, str) else list(card.target_modules)
    return LoraConfig(r=card.r, lora_alpha=card.lora_alpha, lora_dropout=card.lora_dropout, target_modules=modules, task_type="CAUSAL_LM")


def sample(
    model: Any, tokenizer: Any, prompts: Sequence[str], *, per_prompt: int, max_tokens: int, temperature: float, top_p: float, seed: int
) -> list[list[Sampled]]:
    """`per_prompt` completions of each prompt, in the order of prompts. The seed is set once, before the first batch."""
    import torch

    ends = _end_tokens(model, tokenizer)
    torch.manual_seed(seed)
    model.eval()
    found: list[Sampled] = []
    flat = [prompt for prompt in prompts for _ in range(per_prompt)]
    batch = 128
    with torch.inference_mode():
        for start in range(0, len(flat), batch):
            inputs = tokenizer(flat[start : start + batch], return_tensors="pt", padding=True, padding_side="left").to(model.device)
            inputs.pop("token_type_ids", None)
            output = model.generate(
                **inputs,
                max_new_tokens=max_tokens,
                do_sample=True,
                temperature=temperature,
                top_p=top_p,
                top_k=0,
                pad_token_id=tokenizer.pad_token_id,
            )
            rows = output[:, inputs["input_ids"].shape[1] :].tolist()
            found.extend(_cut(row, ends, tokenizer) for row in rows)
    return [found[i : i + per_prompt] for i in range(0, len(found), per_prompt)]


def _end_tokens(model: Any, tokenizer: Any) -> set[int]:
    declared = model.generation_config.eos_token_id
    ends = set(declared) if isinstance(declared, list) else {declared}
    return (ends | {tokenizer.eos_token_id}) - {None}


def _cut(ids: list[int], ends: set[int], tokenizer: Any) -> Sampled:
    length = next((index + 1 for index, token in enumerate(ids) if token in ends), None)
    kept = ids[: length or len(ids)]
    return Sampled(text=tokenizer.decode(kept, skip_special_tokens=True), tokens=len(kept), truncated=length is None)
