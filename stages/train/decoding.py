"""Sampling at a fixed shape: rows, prompt width and new tokens never change, so the work of a token is recorded once and replayed.

What samples is a copy of the policy: the same architecture with the adapter merged into its weights, in one dtype. The copy shares every
tensor with the policy that needs no change. Its own are the weights under the adapter (base plus adapter, set anew before each generation,
so no rounding adds up over steps) and, where the base model is in 4 bits, all quantised weights de-quantised to bfloat16: a kernel that
unpacks 4 bits for each token is several times slower than reading two bytes.

At 16 rows the kernels of a token of a 7B model (about 1,500) take longer to launch from Python than to compute. On a GPU one token (choice,
forward pass, bookkeeping) is therefore captured as a CUDA graph, its forward pass compiled first where that works. On a CPU the same
code runs step by step.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

CHECK_EVERY = 32
"""Tokens between two checks whether every row has ended: a check waits for the device."""
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All but cuDNN's, whose scores for single tokens differ from call to call. Named where it is traced: torch.compile keeps compiled graphs
on disk, and takes one that was traced under another setting of torch's."""


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
    """A copy of a policy, which shares all its tensors where all weights are trained. Raises Unsupported when an adapter trains more than
    LoRA matrices, or does more than add their product, or weights are of an unknown kind."""
    base, dtype = _base(policy), _dtype(policy)
    trained = [name for name, value in policy.named_parameters() if value.requires_grad and ".lora_" not in name]
    if trained and base is not policy:
        raise Unsupported(f"the policy trains more than an adapter, first {trained[0]}")
    for name, layer in base.named_modules():
        if getattr(layer, "lora_variant", None) or any(getattr(layer, "lora_bias", {}).values()):
            raise Unsupported(f"the adapter is no plain LoRA, first {name}")
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


def _base(policy: Any) -> Any:
    return policy.get_base_model() if hasattr(policy, "get_base_model") else policy


def _dtype(policy: Any) -> torch.dtype:
    base = _base(policy)
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


@dataclass(frozen=True)
class Shape:
    """`prompt`: tokens of a prompt, padding on the left included; `new`: tokens of a completion."""

    rows: int
    prompt: int
    new: int


@dataclass(frozen=True)
class Choice:
    """How a token is chosen, as transformers does: penalty on repetition, temperature, `top_k`, nucleus, `min_p`. Log-probabilities are
    those of the temperature alone, which training reads too. `repair`: replace logits that are not finite, and count the rows where."""

    temperature: float
    top_p: float
    ends: tuple[int, ...]
    pad: int
    repair: bool
    top_k: int = 0
    min_p: float = 0.0
    penalty: float = 1.0


class StaticCache:
    """Keys and values of all layers at addresses that stay. Stands in for the cache of transformers in a forward pass."""

    def __init__(self, layers: int, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device) -> None:
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        """Where the next single token goes."""

    def update(self, keys: Tensor, values: Tensor, layer: int, *rest: Any, **named: Any) -> tuple[Tensor, Tensor]:
        """A prompt fills the first places and sees itself; a single token goes to its place and sees all of them."""
        if keys.shape[2] > 1:
            self.keys[layer][:, :, : keys.shape[2]].copy_(keys)
            self.values[layer][:, :, : keys.shape[2]].copy_(values)
            return keys, values
        self.keys[layer].index_copy_(2, self.at, keys)
        self.values[layer].index_copy_(2, self.at, values)
        return self.keys[layer], self.values[layer]


class Decoder:
    """Samples for one model and shape. Build once, `run` for every batch of that shape."""

    def __init__(self, model: Any, shape: Shape, choice: Choice, compiled: bool) -> None:
        config, rows, device = model.config.get_text_config(), shape.rows, model.device
        self.model, self.shape, self.choice, self.device = model, shape, choice, device
        length = -(-(shape.prompt + shape.new) // 64) * 64  # attention kernels like whole blocks; places past the end stay hidden
        heads = int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
        width = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
        self.cache = StaticCache(config.num_hidden_layers, (rows, heads, length, width), model.dtype, device)
        self.cache_name = "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"
        with torch.device(device):
            self.places = torch.zeros((rows, 1), dtype=torch.long)
            self.visible = torch.zeros((rows, 1, 1, length), dtype=torch.bool)
            self.scores = torch.zeros((rows, config.vocab_size), dtype=torch.float32)
            self.done = torch.zeros(rows, dtype=torch.bool)
            self.index = torch.zeros(1, dtype=torch.long)
            self.tokens = torch.full((rows, shape.new), choice.pad, dtype=torch.long)
            self.logps = torch.zeros((rows, shape.new), dtype=torch.float32)
            self.repaired = torch.zeros(1, dtype=torch.long)
            self.seen = torch.zeros((rows, config.vocab_size if choice.penalty != 1.0 else 0), dtype=torch.bool)
            """Tokens that prompt or completion hold, where these are penalised."""
            self.ends = torch.tensor(choice.ends, dtype=torch.long)
        self.forward: Callable[..., Tensor] = torch.compile(self._forward, dynamic=False) if compiled else self._forward
        self._replay: Callable[[], Any] = self._captured() if device.type == "cuda" else self._token

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def run(
        self,
        ids: Tensor,
        attention: Tensor,
        every: int = CHECK_EVERY,
        stopped: Callable[[list[list[int]]], list[bool]] | None = None,
    ) -> tuple[Tensor, Tensor, int]:
        """Completions of prompts (rows, at most shape.prompt), padded on the left: tokens (rows, new) padded after the end, their
        log-probabilities in nats (0 after the end), and the number of repaired rows. `stopped`: whether what a row says so far ends it;
        asked at each check, so a row may hold up to `every` tokens more."""
        missing = self.shape.prompt - ids.shape[1]
        ids = torch.nn.functional.pad(ids, (missing, 0), value=self.choice.pad)
        self._begin(ids, torch.nn.functional.pad(attention, (missing, 0), value=0))
        for number in range(self.shape.new):
            self._replay()
            if number % every == every - 1:
                if stopped is not None:
                    self.done |= torch.tensor(stopped(self.tokens[:, : number + 1].tolist()), device=self.device)
                if bool(self.done.all()):
                    break
        return self.tokens.clone(), self.logps.clone(), int(self.repaired)

    def _begin(self, ids: Tensor, attention: Tensor) -> None:
        """Read the prompts and put all that a token uses in its first state."""
        width, shown = self.shape.prompt, attention.bool()
        below = torch.ones((width, width), dtype=torch.bool, device=self.device).tril()
        itself = torch.eye(width, dtype=torch.bool, device=self.device)  # a row of padding must see something, or it reads NaN
        places = (attention.long().cumsum(1) - 1).clamp(min=0)
        self.scores.copy_(self._forward(ids, places, (below & shown[:, None, :] | itself)[:, None]))
        for tensor in (self.visible, self.index, self.done, self.repaired, self.logps, self.seen):
            tensor.zero_()
        if self.choice.penalty != 1.0:
            self.seen.scatter_(1, ids, True)
            self.seen[:, self.choice.pad] = ((ids == self.choice.pad) & shown).any(1)
        self.visible[:, 0, 0, :width] = shown
        self.places.copy_(places[:, -1:] + 1)
        self.cache.at.fill_(width)
        self.tokens.fill_(self.choice.pad)

    def _forward(self, ids: Tensor, places: Tensor, visible: Tensor) -> Tensor:
        """Logits of the last place, (rows, vocabulary)."""
        named = {self.cache_name: self.cache, "use_cache": True, "logits_to_keep": 1, "return_dict": True}
        with sdpa_kernel(ATTENTION):
            logits: Tensor = self.model(input_ids=ids, attention_mask=visible, position_ids=places, **named).logits[:, -1]
        return logits

    def _token(self) -> None:
        """Choose a token from the scores, keep it, and read the scores after it. No value comes back from the device."""
        scores = self.scores / self.choice.temperature
        if self.choice.repair:
            self.repaired += (~torch.isfinite(scores).all(-1)).sum()
            limits = torch.finfo(scores.dtype)
            scores = torch.nan_to_num(scores, nan=limits.min, posinf=limits.max, neginf=limits.min)
        logps = torch.log_softmax(scores, -1)
        noise = torch.empty_like(logps).exponential_()  # argmax of p / Exp(1) is a draw from p
        token = (self._allowed(scores, logps) - noise.log()).argmax(-1)
        logp = logps.gather(-1, token[:, None])[:, 0]
        token = torch.where(self.done, self.choice.pad, token)
        self.tokens.index_copy_(1, self.index, token[:, None])
        if self.choice.penalty != 1.0:
            self.seen.scatter_(1, token[:, None], True)
        self.logps.index_copy_(1, self.index, torch.where(self.done, 0.0, logp)[:, None])
        self.done |= (token[:, None] == self.ends).any(-1)
        self.visible.index_fill_(3, self.cache.at, True)
        self.scores.copy_(self.forward(token[:, None], self.places, self.visible))
        for counter in (self.places, self.cache.at, self.index):
            counter += 1

    def _allowed(self, scores: Tensor, logps: Tensor) -> Tensor:
        """What the token is drawn from: -inf where it may not be drawn, else log-probabilities up to a constant."""
        choice = self.choice
        if choice.penalty != 1.0:  # a factor on the logit, so it does not matter that the temperature has divided it
            penalised = torch.where(scores < 0, scores * choice.penalty, scores / choice.penalty)
            logps = torch.log_softmax(torch.where(self.seen, penalised, scores), -1)
        if choice.top_k:
            least = logps.topk(min(choice.top_k, logps.shape[-1])).values[:, -1:]
            logps = torch.log_softmax(logps.masked_fill(logps < least, -torch.inf), -1)
        if choice.top_p < 1.0:
            logps = self._nucleus(logps)
        if choice.min_p:
            logps = logps.masked_fill(logps < logps.amax(-1, keepdim=True) + math.log(choice.min_p), -torch.inf)
        return logps

    def _nucleus(self, logps: Tensor) -> Tensor:
        ordered, order = logps.sort(-1, descending=True)
        before = ordered.exp().cumsum(-1) - ordered.exp()
        kept = torch.where(before < self.choice.top_p, ordered, -torch.inf)
        return torch.full_like(logps, -torch.inf).scatter(-1, order, kept)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _captured(self) -> Callable[[], Any]:
        """One token as a CUDA graph. The warm-up's random numbers are put back: a resumed run draws the same."""
        state, current = torch.cuda.get_rng_state(self.device), torch.cuda.current_stream(self.device)
        side = torch.cuda.Stream(self.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(3):
                self._restart()
                self._token()
        current.wait_stream(side)
        self._restart()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._token()
        torch.cuda.set_rng_state(state, self.device)
        replay: Callable[[], Any] = graph.replay
        return replay

    def _restart(self) -> None:
        self.index.zero_()
        self.visible[..., : self.shape.prompt] = True
        for place in (self.cache.at, self.places):
            place.fill_(self.shape.prompt)
