"""The policy of PPO: a LoRA adapter on the base model, a value head beside its vocabulary head, and the reference inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import GenerationConfig

from stages.contracts.model import Adapter
from stages.train.model import lora, sampling_options
from stages.train.rollouts import Rollouts
from stages.train.stop_texts import NO_STOPS, StopTexts, stopping_criteria


@dataclass(frozen=True)
class SampledBatch:
    """Completions of a batch of prompts. `ids` and `attention` are (completions, prompt + completion tokens), prompts padded left,
    completions right; `mask` is 1 on the completion's own tokens, its end included."""

    ids: Tensor
    attention: Tensor
    mask: Tensor

    @property
    def width(self) -> int:
        """Tokens of the longest completion."""
        return int(self.mask.shape[1])

    @property
    def completions(self) -> Tensor:
        return self.ids[:, -self.width :]

    def rows(self, which: Tensor) -> SampledBatch:
        return SampledBatch(self.ids[which], self.attention[which], self.mask[which])


class Reading(NamedTuple):
    """Of each completion token its log-probability, the value before it, and the entropy of its distribution where that was asked for;
    each (completions, tokens)."""

    logps: Tensor
    values: Tensor
    entropy: Tensor | None


class Policy(nn.Module):  # type: ignore[misc]
    """Base model with adapter (`network`) and the value head. Dropout is off: it would make the old and the new policy differ before
    any step. The value head starts at zero, so the first advantages are the rewards themselves."""

    rollouts: Rollouts | None = None
    """The engine that samples; none: transformers does."""
    _states: Tensor

    def __init__(self, model: Any, adapter: Adapter, checkpointing: bool) -> None:
        from peft import get_peft_model

        super().__init__()
        self.network = get_peft_model(model, lora(adapter))
        self.value_head = nn.Linear(model.config.get_text_config().hidden_size, 1, device=model.device, dtype=torch.float32)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)
        for module in self.network.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        self.checkpointing = checkpointing
        if checkpointing:
            self.network.enable_input_require_grads()
            self.network.gradient_checkpointing_enable({"use_reentrant": False})
        self.network.get_output_embeddings().register_forward_pre_hook(self._keep_states)
        self.train_mode(False)

    def train_mode(self, on: bool) -> None:
        """Transformers recomputes activations in training mode only; nothing else depends on the mode."""
        self.network.train(on and self.checkpointing)

    def _keep_states(self, module: Any, inputs: tuple[Tensor, ...]) -> None:
        """Keep what the vocabulary head reads: the value head reads the same, and no other layer's states need to be kept."""
        self._states = inputs[0]

    def sample(
        self,
        tokenizer: Any,
        prompts: Sequence[str],
        ends: set[int],
        max_tokens: int,
        temperature: float,
        top_p: float,
        stops: StopTexts = NO_STOPS,
    ) -> SampledBatch:
        """One completion a prompt, with torch's global random numbers."""
        inputs = tokenizer(list(prompts), return_tensors="pt", padding=True, padding_side="left").to(self.network.device)
        ids, attention = inputs["input_ids"], inputs["attention_mask"]
        options = sampling_options(tokenizer, max_tokens, temperature, top_p)
        output = None
        if self.rollouts is not None:
            output = self.rollouts.sampled(self.network, ids, attention, GenerationConfig(**options, eos_token_id=sorted(ends)))
        if output is None:
            with torch.no_grad():
                output = self.network.generate(input_ids=ids, attention_mask=attention, **options, **stopping_criteria(stops, ids.shape[1]))
        completions = output[:, ids.shape[1] :]
        lengths = torch.tensor([stops.length(row, ends) or len(row) for row in completions.tolist()], device=completions.device)
        longest = int(lengths.max())  # the engine's completions are all of full width
        mask = (torch.arange(longest, device=completions.device) < lengths[:, None]).long()
        return SampledBatch(output[:, : ids.shape[1] + longest], torch.cat([attention, mask], 1), mask.float())

    def read(self, sampled: SampledBatch, temperature: float, entropy: bool = False) -> Reading:
        """What the policy gives the completions at a temperature."""
        places = (sampled.attention.cumsum(1) - 1).clamp(min=0)
        width = sampled.width
        output = self.network(
            input_ids=sampled.ids, attention_mask=sampled.attention, position_ids=places, logits_to_keep=width + 1, use_cache=False
        )
        spread = torch.log_softmax(output.logits[:, -width - 1 : -1].float() / temperature, -1)
        logps = spread.gather(-1, sampled.completions[..., None])[..., 0]
        values = self.value_head(self._states[:, -width - 1 : -1].float())[..., 0]
        del self._states
        if not entropy:
            return Reading(logps, values, None)
        with torch.no_grad():
            return Reading(logps, values, -(spread.exp() * spread).sum(-1))

    def reference(self, sampled: SampledBatch, temperature: float) -> Tensor:
        """Log-probabilities under the base model: the adapter is switched off."""
        with self.network.disable_adapter():
            return self.read(sampled, temperature).logps

    def trainable(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.parameters() if parameter.requires_grad]
