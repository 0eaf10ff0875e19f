"""The `data` of a spec: prompt sets, from files of the project or from the hub."""

from __future__ import annotations

from pydantic import Field, model_validator

from compiler.language.spec_part import Part
from stages.contracts.names import HubId, ProjectPath, fault


class PromptData(Part):
    """Prompts: a JSONL file, one object a row, each with a unique text `id`; or a dataset of the Hugging Face hub."""

    path: ProjectPath | None = Field(None, description="JSONL file; this or `hub`.")
    hub: HubId | None = Field(
        None, description="Dataset of the Hugging Face hub, `owner/name`, pinned in specs/revisions.lock.yaml; this or `path`."
    )
    split: str | None = Field(None, min_length=1, max_length=100, description="Split of a hub dataset; not given: `train`.")
    config: str | None = Field(None, min_length=1, max_length=100, description="Configuration (subset) of a hub dataset that has several.")
    id: str | None = Field(
        None,
        min_length=1,
        description="Column of a hub dataset that holds a unique id; not given: ids such as `train-1`, by the row's number.",
    )
    prompt: str = Field("prompt", min_length=1, description="Key of the prompt's text in a row.")
    rows: int | None = Field(None, ge=1, description="Use only the first so many rows.")

    @model_validator(mode="after")
    def _one_source(self) -> PromptData:
        if (self.path is None) == (self.hub is None):
            both = self.path is not None
            raise fault(
                "E209",
                "prompts have exactly one of `path` and `hub`" + (", and here both" if both else ""),
                "a file in the project and a dataset of the hub are two sources; layers merge, and null removes what a lower one says",
                f"hub: null, beside `path: {self.path}`" if both else "path: data/train.jsonl",
            )
        given = next((key for key in ("split", "config", "id") if getattr(self, key) is not None), None)
        if self.hub is None and given is not None:
            raise fault(
                "E275",
                f"`{given}` belongs to a hub dataset, and these prompts are the file `{self.path}`",
                "a file has no splits and no configurations, and its ids stand under `id`",
                f"delete `{given}`, or write `{given}: null` above a layer that gives it",
            )
        return self


class TrainData(PromptData):
    """Prompts to train on: a JSONL file, one object a row, each with a unique text `id`; or a dataset of the Hugging Face hub."""

    answer: str | None = Field(
        None, min_length=1, description="Key of the gold answer's text in a row, for `algorithm: sft`; not given: `answer`."
    )


class EvaluationData(PromptData):
    """Held-out prompts of the shared evaluation."""


class Data(Part):
    """Prompt sets."""

    train: TrainData = Field(description="Prompts to train on.")
    evaluation: EvaluationData | None = Field(None, description="Held-out prompts, the same for every run and the untrained model.")
