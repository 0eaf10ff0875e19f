"""`runs/_models/<name>/pretrain.card.json`: a base model that the repository makes itself."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.code import Version
from stages.contracts.plugin import CORPORA, kinds


def _known(kind: str) -> str:
    if kind not in kinds(CORPORA):
        raise ValueError(f"no corpus of kind `{kind}`: a kind is a file in stages/train/corpora/; known: {', '.join(kinds(CORPORA))}")
    return kind


def _named(schema: dict[str, Any]) -> None:
    schema["enum"] = kinds(CORPORA)


class CorpusSettings(Frozen):
    """A generated corpus of prompt and completion pairs."""

    kind: Annotated[str, AfterValidator(_known), Field(json_schema_extra=_named)] = Field(
        "expressions", description="A file in stages/train/corpora/."
    )
    rows: int = Field(ge=1, description="Pairs.")
    faulty: float = Field(ge=0, le=1, description="Share of pairs with a plausible bug, so that RL has something to sharpen.")
    seed: int = Field(description="Seed of the generator.")


class ArchitectureSettings(Frozen):
    """A Qwen2 decoder; names are those of transformers' Qwen2Config."""

    hidden_size: int = Field(96, ge=8)
    num_hidden_layers: int = Field(3, ge=1)
    num_attention_heads: int = Field(4, ge=1)
    intermediate_size: int = Field(288, ge=8)
    max_position_embeddings: int = Field(256, ge=32)
    vocab_size: int = Field(320, ge=260, description="BPE vocabulary, the 256 bytes and three special tokens included.")


class PretrainSettings(Frozen):
    """Supervised pre-training; names are those of TRL's SFTConfig."""

    max_steps: int = Field(ge=1)
    per_device_train_batch_size: int = Field(64, ge=1)
    learning_rate: float = Field(3e-3, gt=0)
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = "cosine"
    warmup_steps: int = Field(30, ge=0)
    max_length: int = Field(96, ge=8)
    seed: int = 0


class PretrainCard(Artifact):
    """Corpus, tokenizer, architecture and pre-training of one base model."""

    SCHEMA: ClassVar[str] = "octavo.pretrain_card/1"

    name: str
    corpus: CorpusSettings
    architecture: ArchitectureSettings
    pretrain: PretrainSettings
    versions: dict[str, str]
    code: dict[str, Version]
