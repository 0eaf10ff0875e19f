"""The policy of PPO: a LoRA adapter on the base model, a value head beside its vocabulary head, and the reference inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig

from stages.contracts.model_card import AdapterCard
from stages.train.model import lora
from stages.train.rollouts import Rollouts


@dataclass(frozen=True)
class Sampled:
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

    def rows(self, which: Tensor) -> Sampled:
        return Sampled(self.ids[which], self.attention[which], self.mask[which])


class Policy(nn.Module):  # type: ignore[misc]
    """Base model with adapter (`network`) and the value head. Dropout is off: it would make the old and the new policy differ before
    any step. The value head starts at zero, so the first advantages are the rewards themselves."""

    rollouts: Rollouts | None = None
    """The engine that samples; none: transformers does."""

    def __init__(self, model: Any, adapter: AdapterCard, checkpointing: bool) -> None:
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
        self.learning(False)

    def learning(self, on: bool) -> None:
        """Transformers recomputes activations in training mode only; nothing else depends on the mode."""
        self.network.train(on and self.checkpointing)

    def sample(self, tokenizer: Any, prompts: Sequence[str], ends: set[int], max_tokens: int, temperature: float, top_p: float) -> Sampled:
        """One completion a prompt, with torch's global random numbers."""
        inputs = tokenizer(list(prompts), return_tensors="pt", padding=True, padding_side="left").to(self.network.device)
        ids, attention = inputs["input_ids"], inputs["attention_mask"]
        how = {"max_new_tokens": max_tokens, "do_sample": True, "temperature": temperature, "top_p": top_p, "top_k": 0}
        how["pad_token_id"] = tokenizer.pad_token_id
        output = self._compiled(ids, attention, ends, how)
        if output is None:
            with torch.no_grad():
                output = self.network.generate(input_ids=ids, attention_mask=attention, **how)
        made = output[:, ids.shape[1] :]
        over = torch.isin(made, torch.tensor(sorted(ends), device=made.device)).cumsum(1)
        mask = torch.cat([torch.ones_like(over[:, :1]), (over[:, :-1] == 0).long()], 1)
        return Sampled(output, torch.cat([attention, mask], 1), mask.float())

    def _compiled(self, ids: Tensor, attention: Tensor, ends: set[int], how: dict[str, Any]) -> Tensor | None:
        """Prompts with completions from the engine, as wide as the longest of them; None where transformers must sample."""
        if self.rollouts is None:
            return None
        config = GenerationConfig(**how, eos_token_id=sorted(ends))
        output = self.rollouts.sampled(self.network, ids, attention, config)
        if output is None:
            return None
        made = output[:, ids.shape[1] :]
        going = torch.isin(made, torch.tensor(sorted(ends), device=made.device)).cumsum(1) == 0
        longest = min(made.shape[1], int(going.sum(1).max()) + 1)
        return output[:, : ids.shape[1] + longest]

    def read(self, sampled: Sampled, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
        """(log-probability of each completion token, entropy of its distribution, value before it), each (completions, tokens)."""
        places = (sampled.attention.cumsum(1) - 1).clamp(min=0)
        found = self.network(
            input_ids=sampled.ids,
            attention_mask=sampled.attention,
            position_ids=places,
            logits_to_keep=sampled.width + 1,
            output_hidden_states=True,
            use_cache=False,
        )
        spread = torch.log_softmax(found.logits[:, -sampled.width - 1 : -1].float() / temperature, -1)
        logps = spread.gather(-1, sampled.completions[..., None])[..., 0]
        with torch.no_grad():
            entropy = -(spread.exp() * spread).sum(-1)
        values = self.value_head(found.hidden_states[-1][:, -sampled.width - 1 : -1].float())[..., 0]
        return logps, entropy, values

    def reference(self, sampled: Sampled, temperature: float) -> Tensor:
        """Log-probabilities under the base model: the adapter is switched off."""
        with self.network.disable_adapter():
            return self.read(sampled, temperature)[0]

    def trainable(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.parameters() if parameter.requires_grad]
