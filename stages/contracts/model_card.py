"""Models and data as stages receive them: pinned, so that two stages can be told to use the same thing."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from stages.contracts.artifact import Frozen


def _unset(value: object) -> bool:
    """Fields that came later than the first cards are left out while they are unset, so that old cards keep their bytes."""
    return not value


class AdapterCard(Frozen):
    """What training changes; field names are PEFT's. `full`: all weights of the model, and the other fields mean nothing."""

    kind: Literal["lora", "full"] = "lora"
    r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.0
    target_modules: str | tuple[str, ...] = "all-linear"

    @model_serializer(mode="wrap")
    def _without_lora_when_full(self, dumped: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind} if self.kind == "full" else dumped(self)


class ModelCard(Frozen):
    """`path` is a local folder that transformers can load, or the id of a hub model; `revision` pins its content (card id of a made
    model, digest of a folder, commit of a hub model)."""

    base: str
    path: str
    revision: str
    hub: bool = Field(False, exclude_if=_unset)
    """Whether `path` is a hub id and `revision` a commit of it."""
    quantization: Literal["none", "nf4", "int8"] = "none"
    """Of the base model's linear layers, through bitsandbytes; the adapter is never quantised."""
    adapter: AdapterCard
    apply_chat_template: bool = Field(False, exclude_if=_unset)
    """Whether each prompt is put into the tokenizer's chat template as the one message of a user."""


class HubSplit(Frozen):
    """Rows of a hub dataset."""

    revision: str
    """Commit."""
    split: str
    config: str | None = None
    id: str | None = None
    """Column of the rows' ids; null: ids are made from the split and the row's number, counted from 1."""


class DataCard(Frozen):
    """A JSONL file: one object a row; every row has a unique text `id` and the prompt under the key `prompt`. Or rows of a hub dataset."""

    path: str
    """The file; of hub rows the dataset's id."""
    sha256: str | None = Field(None, exclude_if=_unset)
    """Of the file; null for hub rows, which their commit pins."""
    hub: HubSplit | None = Field(None, exclude_if=_unset)
    prompt: str = "prompt"
    answer: str | None = Field(None, exclude_if=_unset)
    """Key of the gold answer, a text, of rows that supervised fine-tuning trains on; null where nothing reads one."""
    rows: int | None = None
    """Only the first so many rows; null: all."""

    @property
    def pin(self) -> str:
        """What pins the rows, in words."""
        return f"revision {self.hub.revision}, split {self.hub.split}" if self.hub else f"sha256 {self.sha256}"
