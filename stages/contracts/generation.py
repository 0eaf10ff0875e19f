"""How completions are generated while a run trains."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.contracts.artifact import Section

_ENGINE = (
    "auto: compiled on a GPU, transformers on a CPU. compiled: fixed shapes, one token recorded once and replayed, from a copy of the "
    "model with the adapter merged."
)


class VllmSettings(Section):
    """`train.generation.vllm`: where vLLM runs. Names and meanings are those of TRL, without its prefix `vllm_`."""

    mode: Literal["colocate", "server"] = Field("colocate", description="On the GPUs that train, or on a server started by the user.")
    gpu_memory_utilization: float = Field(0.3, gt=0, le=1, description="colocate: share of each GPU's memory that vLLM takes.")
    tensor_parallel_size: int = Field(1, ge=1, description="colocate: GPUs that share one copy of the model.")
    max_model_length: int | None = Field(
        None, ge=1, description="colocate: tokens of prompt and completion together; the model's own when left out."
    )
    server_host: str = Field("127.0.0.1", description="server: host of `trl vllm-serve`.")
    server_port: int = Field(8000, ge=1, le=65535, description="server: its port.")


class OwnGenerationSettings(Section):
    """`train.generation` where octavo's own trainer samples (PPO). Left out, a GPU takes `compiled` and a CPU `transformers`."""

    engine: Literal["auto", "transformers", "compiled"] = Field("auto", description=_ENGINE)
    bucket: int = Field(64, ge=8, description="compiled: prompts are padded to a multiple of so many tokens, so that few shapes occur.")
    torch_compile: bool = Field(True, description="compiled: compile the forward pass too; false only records its kernels.")


class GenerationSettings(OwnGenerationSettings):
    """`train.generation`: what samples the completions. Left out, a GPU takes `compiled` and a CPU `transformers`."""

    engine: Literal["auto", "transformers", "compiled", "continuous_batching", "vllm"] = Field(  # type: ignore[assignment]
        "auto", description=_ENGINE
    )
    vllm: VllmSettings | None = Field(None, description="vllm: where it runs.")
