"""A copy of the policy that only samples: the same architecture with the adapter merged into its weights, in one dtype.

The copy shares every tensor with the policy that needs no change. Its own are: the weights under the adapter (base plus adapter, set
anew before each generation, so no rounding adds up over steps), and, where the base model is in 4 bits, all quantised weights
de-quantised to bfloat16: a kernel that unpacks 4 bits for each token is several times slower than reading two bytes.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

LARGEST_SHARE = 0.5
"""Of the free memory of the device, at most so much goes to the copy and its cache: the training step needs the rest."""


class Unsupported(Exception):
    """The policy cannot be copied; the message says why in a few words."""


@dataclass(frozen=True)
class _Merged:
    """One weight of the copy under the adapter, and the layer of the policy that it is made from."""

    layer: Any
    weight: Tensor


class RolloutModel:
    """`model` samples; `refresh` gives it the adapter as it is now."""

    def __init__(self, model: Any, merged: list[_Merged]) -> None:
        self.model, self._merged = model, merged

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def refresh(self) -> None:
        """Base weight plus adapter, added in float32 and rounded once."""
        for one in self._merged:
            total = _plain(one.layer.base_layer).float()
            for adapter in one.layer.active_adapters:
                total = total + one.layer.get_delta_weight(adapter).float()  # not in place: `total` may be the base weight itself
            one.weight.copy_(total)


def extra_bytes(policy: Any, rows: int, positions: int) -> int:
    """Bytes that a copy of the policy needs beyond the policy's own, with a cache of `rows` x `positions` tokens."""
    config, size = policy.config.get_text_config(), _dtype(policy).itemsize
    found = 2 * config.num_hidden_layers * rows * positions * _heads(config) * _width(config) * size
    for layer in _base(policy).modules():
        base = getattr(layer, "base_layer", None)
        if base is not None or type(layer).__name__ == "Linear4bit":
            inner = base if base is not None else layer
            found += inner.in_features * inner.out_features * size
    return int(found)


def rollout_model(policy: Any) -> RolloutModel:
    """A copy of a PEFT policy. Raises Unsupported when it trains more than LoRA matrices, or holds weights of an unknown kind."""
    base = _base(policy)
    trained = [name for name, value in policy.named_parameters() if value.requires_grad and ".lora_" not in name]
    if trained:
        raise Unsupported(f"the policy trains more than an adapter, first {trained[0]}")
    dtype = _dtype(policy)
    config = copy.deepcopy(base.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        model = type(base)(config)
    of, merged, made = dict(base.named_modules()), [], dict[int, Tensor]()
    for name, module in model.named_modules():
        if name not in of:
            raise Unsupported(f"the policy has no layer {name}")
        source = of[name]
        layer = source if hasattr(source, "base_layer") else None
        inner = layer.base_layer if layer is not None else source
        for key, value in list(module._parameters.items()):
            if value is None:
                continue
            if key == "weight" and layer is not None:
                weight = torch.empty(value.shape, dtype=dtype, device=inner.weight.device)
                merged.append(_Merged(layer, weight))
            else:
                original = getattr(inner, key)
                weight = made.setdefault(id(original), (_plain(inner) if key == "weight" else original.detach()).to(dtype))
            module._parameters[key] = nn.Parameter(weight, requires_grad=False)
        for key in module._buffers:
            module._buffers[key] = inner._buffers[key]
    return RolloutModel(model.eval(), merged)


def _base(policy: Any) -> Any:
    return policy.get_base_model()


def _dtype(policy: Any) -> torch.dtype:
    base = _base(policy)
    if getattr(base, "is_quantized", False):
        return torch.bfloat16 if base.device.type == "cuda" else torch.float32
    found: torch.dtype = base.dtype
    return found


def _plain(module: Any) -> Tensor:
    """The weight of a layer, de-quantised where it is in 4 bits. In 8 bits the policy rounds activations too: no weights equal that."""
    from peft.utils.integrations import dequantize_module_weight

    kind = type(module.weight).__name__
    if kind == "Int8Params":
        raise Unsupported("8-bit layers round their inputs too, which plain weights do not")
    found: Tensor = dequantize_module_weight(module)
    return found.detach()


def _heads(config: Any) -> int:
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def _width(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
