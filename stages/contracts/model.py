"""Models and data: the sections of a spec, and the references in which a card pins them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from stages.contracts.artifact import Section, later
from stages.contracts.names import HubId, ProjectPath, refused
from stages.contracts.prompt import PromptFormat


class Adapter(Section):
    """LoRA adapter; names are those of PEFT's LoraConfig."""

    kind: Literal["lora", "full"] = Field("lora", description="full: all weights, on one device; the other keys mean nothing then.")
    r: int = Field(16, ge=1, le=4096, description="Rank.")
    lora_alpha: int = Field(32, ge=1, description="Scale of the update: lora_alpha / r.")
    lora_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the adapter's input.")
    target_modules: str | tuple[str, ...] = Field("all-linear", description="Modules that get an adapter: `all-linear` or a list of names.")
    bias: Literal["none", "all", "lora_only"] = later("none", description="Biases of the base model that are trained too.")
    use_rslora: bool = later(False, description="Scale the update by lora_alpha / sqrt(r).")
    use_dora: bool = later(False, description="DoRA: learn the length of each weight column beside its direction.")
    init_lora_weights: Literal[True, False, "gaussian", "orthogonal", "pissa", "olora"] = later(
        True, description="How the adapter starts; `pissa` and `olora` move a part of the base weights into it."
    )
    modules_to_save: tuple[str, ...] = Field((), max_length=100, description="Modules that are trained and kept whole, such as `lm_head`.")
    layers_to_transform: tuple[int, ...] = Field((), max_length=1_000, description="Numbers of the layers that get an adapter; none: all.")
    peft: dict[str, Any] = Field(
        {}, description="Other keys of PEFT's LoraConfig, passed on as they are: octavo checks name and type, and has not audited them."
    )

    ADDITIVE: ClassVar[tuple[bool | str, ...]] = (True, False, "gaussian", "orthogonal")
    """Starts of an adapter that leave the weights of the base model alone."""

    @model_serializer(mode="wrap")
    def _without_lora_when_full(self, dumped: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind} if self.kind == "full" else dumped(self)


class Model(Section):
    """The base model, the same for every condition, and its adapter."""

    base: str = Field(
        min_length=1,
        description="`octavo/<name>`: made by this repository from specs/_models/<name>.yaml. A folder in the project. Or `owner/name`, "
        "a model of the Hugging Face hub, pinned in specs/revisions.lock.yaml.",
    )
    apply_chat_template: bool = later(False, description="Put each prompt into the tokenizer's chat template, as a user's message.")
    quantization: Literal["none", "nf4", "int8"] = Field(
        "none",
        description="Of the base model's linear layers, by bitsandbytes: nf4 (4 bits, as in QLoRA), int8 (LLM.int8), or none: as they are. "
        "The same in preflight, training and evaluation.",
    )
    adapter: Adapter = Field(default_factory=Adapter, description="What training changes.")


class ModelRef(Model):
    """A pinned model. `path` is a local folder that transformers can load, or the id of a hub model; `revision` pins its content (card
    id of a made model, digest of a folder, commit of a hub model)."""

    path: str
    revision: str
    hub: bool = later(False)
    """Whether `path` is a hub id and `revision` a commit of it."""


class PromptData(Section):
    """Prompts: a JSONL file, one object a row, each with a unique text `id`; or a dataset of the Hugging Face hub."""

    path: ProjectPath | None = Field(None, description="JSONL file; this or `hub`.")
    hub: HubId | None = Field(None, description="Dataset of the Hugging Face hub, pinned in specs/revisions.lock.yaml; this or `path`.")
    split: str | None = Field(None, min_length=1, max_length=100, description="Split of a hub dataset; not given: `train`.")
    config: str | None = Field(None, min_length=1, max_length=100, description="Configuration (subset) of a hub dataset that has several.")
    id: str | None = Field(
        None,
        min_length=1,
        description="Hub: column of a unique id; not given: ids such as `train-1`, by the row's number.",
    )
    prompt: str = Field(
        "prompt", min_length=1, description="Key of the prompt in a row: a text, or chat messages with `role` and `content`."
    )
    rows: int | None = Field(None, ge=1, description="Use only the first N rows.")

    @property
    def name(self) -> str:
        """The file, or the dataset's id on the hub."""
        return self.path or self.hub or ""

    @model_validator(mode="after")
    def _one_source(self) -> PromptData:
        if (self.path is None) == (self.hub is None):
            raise refused("E209.both", path=self.path) if self.path is not None else refused("E209.source")
        given = next((key for key in ("split", "config", "id") if getattr(self, key) is not None), None)
        if self.hub is None and given is not None:
            raise refused("E275", key=given, path=self.path)
        return self


class TrainData(PromptData):
    """Prompts to train on: a JSONL file, one object a row, each with a unique text `id`; or a dataset of the Hugging Face hub."""

    answer: str | None = Field(None, min_length=1, description="Key of the gold answer's text, for `algorithm: sft`; not given: `answer`.")


class EvaluationData(PromptData):
    """Held-out prompts of the shared evaluation."""


class DatasetRef(TrainData):
    """Pinned prompts: of a file its SHA-256, of rows of the hub the dataset's commit and the split."""

    path: str | None = None
    sha256: str | None = None
    revision: str | None = None
    layout: PromptFormat | None = None
    """What the model reads for a row; null: the prompt of the row alone."""

    @property
    def pin(self) -> str:
        """What pins the rows, in words."""
        return f"revision {self.revision}, split {self.split}" if self.hub else f"sha256 {self.sha256}"
