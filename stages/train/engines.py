"""Which engine samples the completions of a run, and TRL's settings for it."""

from __future__ import annotations

import importlib.util
from typing import Any

from stages.contracts.diagnostic import StageError
from stages.contracts.run_card import TrainCard
from stages.contracts.training import GenerationSettings, VllmSettings


def engine(card: TrainCard[Any]) -> str:
    """`auto` resolved: `compiled` on a GPU, `transformers` on a CPU. Quantisation to 8 bits stays with `transformers`."""
    chosen = card.train.generation.engine if card.train.generation else "auto"
    if chosen != "auto":
        return chosen
    return "compiled" if card.device == "cuda" and card.model.quantization != "int8" else "transformers"


def trl_settings(card: TrainCard[Any]) -> dict[str, Any]:
    """Keyword arguments of TRL's configuration. Raises StageError S245 when the engine's package is not installed."""
    chosen = engine(card)
    if chosen == "continuous_batching":
        return {"use_transformers_continuous_batching": True}
    if chosen != "vllm":
        return {}
    if importlib.util.find_spec("vllm") is None:
        raise StageError(
            "S245",
            "vllm is not installed, and this run generates with it",
            why="another engine would be another experiment in time and rounding, so none is taken instead",
            fix="pip install vllm, or set `train: {generation: {engine: auto}}` and compile",
        )
    vllm = (card.train.generation or GenerationSettings()).vllm or VllmSettings()
    return {"use_vllm": True, **{f"vllm_{key}": value for key, value in vllm.model_dump().items()}}
