"""Base models in 4 or 8 bits through bitsandbytes, an extra: it adds a second to every import of transformers."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, Literal

from stages.contracts.diagnostic import StageError
from stages.contracts.model import ModelRef


def quantization(card: ModelRef, device: Literal["cpu", "cuda"]) -> dict[str, Any]:
    """Arguments of from_pretrained; none for weights as they are. NF4 computes in bfloat16 on a GPU, in float32 on a CPU.

    Raises StageError S278 when bitsandbytes is not installed.
    """
    if card.quantization == "none":
        return {}
    if importlib.util.find_spec("bitsandbytes") is None:
        raise StageError(
            "S278",
            f"bitsandbytes is not installed, and {card.base} is to be loaded in {card.quantization}",
            why="weights in fewer bits are another model than the card names, so nothing is loaded instead",
            fix="pip install -c constraints.txt -e '.[quantization]'",
            pointer="/model/quantization",
        )
    import torch
    from transformers import BitsAndBytesConfig

    warnings.filterwarnings("ignore", message="MatMul8bitLt: inputs will be cast")  # once a layer and step
    if card.quantization == "int8":
        settings = BitsAndBytesConfig(load_in_8bit=True)
    else:
        compute = torch.bfloat16 if device == "cuda" else torch.float32
        settings = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute)
    return {"quantization_config": settings, "device_map": {"": torch.cuda.current_device() if device == "cuda" else "cpu"}}


def plain(model: Any) -> Any:
    """The model with 4-bit weights kept as they were loaded. On some CPUs bitsandbytes packs them anew in the first forward pass outside
    of training, computes otherwise with them, and never unpacks them: training behind a sampling would get no gradient through them."""
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    return model


def for_training(card: ModelRef, model: Any, gradient_checkpointing: bool) -> Any:
    """The model with what PEFT asks for under an adapter: frozen, its other layers in float32. As it is without quantisation."""
    if card.quantization == "none":
        return model
    from peft import prepare_model_for_kbit_training

    return prepare_model_for_kbit_training(model, use_gradient_checkpointing=gradient_checkpointing)
