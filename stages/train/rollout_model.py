"""A copy of the policy that only samples: the same architecture with the adapter merged into its weights, in one dtype.

The copy shares every tensor with the policy that needs no change. Its own are the weights under the adapter (base plus adapter, set anew
before each generation, so no rounding adds up over steps) and, where the base model is in 4 bits, all quantised weights de-quantised to
bfloat16: a kernel that unpacks 4 bits for each token is several times slower than reading two bytes.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


class Unsupported(Exception):
    """The policy cannot be copied; the message says why in a few words."""


class RolloutModel:
    """`model` samples; `refresh` gives it the adapter as it is now. `merged`: layers of the policy with the weights of the copy."""

    def __init__(self, model: Any, merged: list[tuple[Any, Tensor]]) -> None:
        self.model, self._merged = model, merged

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def refresh(self) -> None:
        """Base weight plus adapter, added in float32 and rounded once."""
        for layer, weight in self._merged:
            total = _plain_weight(layer.base_layer).float()
            for adapter in layer.active_adapters:
                total = total + layer.get_delta_weight(adapter).float()  # not in place: `total` may be the base weight itself
            weight.copy_(total)


def rollout_model(policy: Any) -> RolloutModel:
    """A copy of a PEFT policy. Raises Unsupported when it trains more than LoRA matrices, or holds weights of an unknown kind."""
    base, dtype = policy.get_base_model(), _dtype(policy)
    trained = [name for name, value in policy.named_parameters() if value.requires_grad and ".lora_" not in name]
    if trained:
        raise Unsupported(f"the policy trains more than an adapter, first {trained[0]}")
    config = copy.deepcopy(base.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        model = type(base)(config)
    sources, merged, shared = dict(base.named_modules()), list[tuple[Any, Tensor]](), dict[int, Tensor]()
    for name, module in model.named_modules():
        if name not in sources:
            raise Unsupported(f"the policy has no layer {name}")
        layer = sources[name]
        inner: Any = getattr(layer, "base_layer", layer)
        for key, value in list(module._parameters.items()):
            if value is None:
                continue
            if key == "weight" and inner is not layer:
                weight = torch.empty(value.shape, dtype=dtype, device=inner.weight.device)
                merged.append((layer, weight))
            else:
                original = getattr(inner, key)
                weight = shared.setdefault(id(original), (_plain_weight(inner) if key == "weight" else original.detach()).to(dtype))
            module._parameters[key] = nn.Parameter(weight, requires_grad=False)
        for key in module._buffers:
            module._buffers[key] = inner._buffers[key]
    return RolloutModel(model.eval(), merged)


def cache_shape(config: Any) -> tuple[int, int]:
    """(heads of keys and values, numbers a head)."""
    heads = int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
    return heads, int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _dtype(policy: Any) -> torch.dtype:
    base = policy.get_base_model()
    if getattr(base, "is_quantized", False):
        return torch.bfloat16 if base.device.type == "cuda" else torch.float32
    dtype: torch.dtype = base.dtype
    return dtype


def _plain_weight(module: Any) -> Tensor:
    """The weight of a layer, de-quantised where it is in 4 bits. In 8 bits the policy rounds activations too: no weights equal that."""
    from peft.utils.integrations import dequantize_module_weight

    if type(module.weight).__name__ == "Int8Params":
        raise Unsupported("8-bit layers round their inputs too, which plain weights do not")
    weight: Tensor = dequantize_module_weight(module)
    return weight.detach()
