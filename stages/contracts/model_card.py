"""Models and data as stages receive them: pinned, so that two stages can be told to use the same thing."""

from __future__ import annotations

from typing import Literal

from stages.contracts.artifact import Frozen


class AdapterCard(Frozen):
    """LoRA adapter; field names are PEFT's."""

    kind: Literal["lora"] = "lora"
    r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.0
    target_modules: str | tuple[str, ...] = "all-linear"


class ModelCard(Frozen):
    """`path` is a local folder that transformers can load; `revision` pins its content (card id of a made model, or commit)."""

    base: str
    path: str
    revision: str
    quantization: Literal["none"] = "none"
    adapter: AdapterCard


class DataCard(Frozen):
    """A JSONL file: one object a row; every row has a unique text `id` and the prompt under the key `prompt`."""

    path: str
    sha256: str
    prompt: str = "prompt"
    rows: int | None = None
    """Only the first so many rows; null: all."""
