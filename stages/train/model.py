"""Loading base models and adapters, and sampling from them without a trainer (TRL costs seconds to import)."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stages.contracts.evaluation import EvaluateCard
from stages.contracts.model import Adapter, DatasetRef, ModelRef
from stages.contracts.preflight_card import PreflightCondition
from stages.contracts.prompt import messages, plain_text
from stages.contracts.training import Sampler
from stages.train.data import Row, missing, require_model
from stages.train.refusals import refusal
from stages.train.stop_texts import StopTexts, stopping_criteria

BATCH = 128
"""Completions that are sampled at a time without a trainer."""


@dataclass(frozen=True)
class Sampled:
    """One completion: text without special tokens, its length in tokens (end of text included), and whether it was cut."""

    text: str
    tokens: int
    truncated: bool


def load_base(card: ModelRef, device: Literal["cpu", "cuda"], bf16: bool = False) -> tuple[Any, Any]:
    """(model, tokenizer) of a card. Raises StageError S203 when the folder is missing or no model, S275 when a hub model cannot be had,
    S278 without bitsandbytes for a quantised one."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    pinned: dict[str, Any] = {}
    if card.hub:
        require_model(card)
        pinned = {"revision": card.revision}
    elif not Path(card.path).is_dir():
        raise refusal("S203.missing", path=card.path)
    quantized = quantization(card, device)
    try:
        tokenizer = AutoTokenizer.from_pretrained(card.path, padding_side="left", **pinned)
        dtype = torch.bfloat16 if bf16 or (quantized and device == "cuda") else torch.float32
        model = AutoModelForCausalLM.from_pretrained(card.path, dtype=dtype, **quantized, **pinned)
    except (OSError, ValueError) as error:
        if card.hub:
            raise missing("model", card.path, card.revision, error) from None
        raise refusal("S203.broken", path=card.path, error=error) from None
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if not quantized:
        return model.to(device), tokenizer
    for module in model.modules():
        # On some CPUs bitsandbytes packs 4-bit weights anew in the first forward pass outside of training and never unpacks them:
        # training behind a sampling would get no gradient through them.
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    return model, tokenizer


def quantization(card: ModelRef, device: Literal["cpu", "cuda"]) -> dict[str, Any]:
    """Arguments of from_pretrained; none for weights as they are. NF4 computes in bfloat16 on a GPU, in float32 on a CPU. bitsandbytes is
    an extra: it adds a second to every import of transformers. Raises StageError S278 when it is not installed."""
    if card.quantization == "none":
        return {}
    if importlib.util.find_spec("bitsandbytes") is None:
        raise refusal("S278", base=card.base, quantization=card.quantization)
    import torch
    from transformers import BitsAndBytesConfig

    warnings.filterwarnings("ignore", message="MatMul8bitLt: inputs will be cast")  # once a layer and step
    if card.quantization == "int8":
        settings = BitsAndBytesConfig(load_in_8bit=True)
    else:
        compute = torch.bfloat16 if device == "cuda" else torch.float32
        settings = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute)
    return {"quantization_config": settings, "device_map": {"": torch.cuda.current_device() if device == "cuda" else "cpu"}}


def for_training(card: ModelRef, model: Any, gradient_checkpointing: bool) -> Any:
    """The model with what PEFT asks for under an adapter: frozen, its other layers in float32. As it is without quantisation."""
    if card.quantization == "none":
        return model
    from peft import prepare_model_for_kbit_training

    return prepare_model_for_kbit_training(model, use_gradient_checkpointing=gradient_checkpointing)


def load_weights(folder: Path, device: Literal["cpu", "cuda"]) -> Any:
    """A model whose training changed all weights, from the folder of its run; the tokenizer is that of the base model."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device)


def prompt_texts(card: ModelRef, data: DatasetRef, tokenizer: Any, rows: Sequence[Row]) -> list[str]:
    """What the model reads of each row: one text, or the messages of a chat in the tokenizer's chat template.

    The text begins without the token that the tokenizer puts first by itself, so that it stands there once. Raises StageError S277
    when there is no template, or when its prompt does not end on a token boundary. Rows are those that `read_rows` has checked."""
    if not card.apply_chat_template:
        return [plain_text(row, data.prompt, data.layout) for row in rows]
    if not tokenizer.chat_template:
        raise refusal("S277.none", base=card.base)
    chats = [messages(row, data.prompt, data.layout) for row in rows]
    try:
        texts = [tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) for chat in chats]
    except Exception as error:  # a template is a program of the model's author: some refuse a system text, or turns out of order
        raise refusal("S277.refused", base=card.base, reason=f"{error}".partition("\n")[0][:200]) from None
    first = tokenizer("")["input_ids"][:1]
    if first and tokenizer.bos_token and first == [tokenizer.bos_token_id]:
        texts = [text.removeprefix(tokenizer.bos_token) for text in texts]
    for text in texts[:1]:
        alone, followed = tokenizer(text)["input_ids"], tokenizer(text + "a")["input_ids"]
        alone = alone[:-1] if alone[-1:] == followed[-1:] else alone  # a tokenizer that closes every text with a token
        if followed[: len(alone)] != alone:
            raise refusal("S277.inside", base=card.base)
    return texts


def chat_text(card: ModelRef, data: DatasetRef, row: Row) -> str:
    """What the model reads of a row, with the tokenizer on this machine. Raises OSError or ValueError where there is none, StageError
    S277 as `prompt_texts` does."""
    if not card.hub and not Path(card.path).is_dir():
        raise FileNotFoundError(card.path)
    from transformers import AutoTokenizer

    pinned = {"revision": card.revision} if card.hub else {}
    return prompt_texts(card, data, AutoTokenizer.from_pretrained(card.path, local_files_only=True, **pinned), [row])[0]


def lora(card: Adapter) -> Any:
    """PEFT's LoraConfig of a card; None where all weights are trained."""
    if card.kind == "full":
        return None
    from peft import LoraConfig

    settings = card.model_dump(mode="json", exclude={"kind", "peft"})
    return LoraConfig(**settings, **card.peft, task_type="CAUSAL_LM")


def sample(
    model: Any, tokenizer: Any, prompts: Sequence[str], how: EvaluateCard | PreflightCondition, *, per_prompt: int, seed: int
) -> list[list[Sampled]]:
    """`per_prompt` completions of each prompt, in the order of prompts. The seed is set once, before the first batch."""
    import torch

    ends, stops = end_tokens(model, tokenizer), StopTexts.from_data(how.data, tokenizer)
    torch.manual_seed(seed)
    model.eval()
    completions: list[Sampled] = []
    flat = [prompt for prompt in prompts for _ in range(per_prompt)]
    limits = {key: getattr(how, key) for key in Sampler.model_fields} if isinstance(how, Sampler) else {}
    options = {**sampling_options(tokenizer, how.max_completion_length, how.temperature, how.top_p), **limits}
    with torch.inference_mode():
        for start in range(0, len(flat), BATCH):
            inputs = tokenizer(flat[start : start + BATCH], return_tensors="pt", padding=True, padding_side="left").to(model.device)
            inputs.pop("token_type_ids", None)
            width = inputs["input_ids"].shape[1]
            output = model.generate(**inputs, **options, **stopping_criteria(stops, width))
            completions.extend(_cut(row, ends, tokenizer, stops) for row in output[:, width:].tolist())
    return [completions[i : i + per_prompt] for i in range(0, len(completions), per_prompt)]


def sampling_options(tokenizer: Any, max_tokens: int, temperature: float, top_p: float) -> dict[str, Any]:
    """Arguments of `generate`."""
    chosen = {"temperature": temperature, "top_p": top_p, "top_k": 0, "pad_token_id": tokenizer.pad_token_id}
    return {"max_new_tokens": max_tokens, "do_sample": True, **chosen}


def end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Tokens that end a completion."""
    declared = model.generation_config.eos_token_id
    ends = set(declared) if isinstance(declared, list) else {declared}
    return (ends | {tokenizer.eos_token_id}) - {None}


def _cut(ids: list[int], ends: set[int], tokenizer: Any, stops: StopTexts) -> Sampled:
    length = stops.length(ids, ends)
    kept = ids[: length or len(ids)]
    return Sampled(text=stops.cut(tokenizer.decode(kept, skip_special_tokens=True)), tokens=len(kept), truncated=length is None)
