"""Guards of a training run: non-finite gradients are skipped and counted; an adapter that did not change is an error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from transformers import TrainerCallback

from stages.contracts.train_settings import Guards
from stages.train.attempts import Stopped


class NonfiniteGuard(TrainerCallback):  # type: ignore[misc]
    """Looks at gradients before each optimizer step. A NaN loss is logged as 0.0 by the trainer, so the gradient is the evidence."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        self.in_a_row = 0
        self.skipped = False
        """Whether an optimizer step was skipped since the last log; the recorder takes it back."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        if _finite(parameter.grad for parameter in model.parameters()):
            self.in_a_row = 0
            return
        self.skipped = True
        self.in_a_row += 1
        if self.guards.skip_nonfinite_gradients:
            model.zero_grad(set_to_none=True)  # the optimizer leaves parameters without a gradient alone
        if self.in_a_row >= self.guards.stop_after_skipped:
            raise Stopped(
                "nonfinite", f"{self.in_a_row} steps in a row had a non-finite gradient, the last one step {state.global_step + 1}"
            )


def _finite(gradients: Iterable[torch.Tensor | None]) -> bool:
    found = [gradient for gradient in gradients if gradient is not None]
    return not found or bool(torch.isfinite(torch.stack(torch._foreach_norm(found))).all())


def adapter_state(model: Any) -> dict[str, torch.Tensor]:
    """Copies of the trainable weights."""
    return {name: value.detach().clone() for name, value in model.named_parameters() if value.requires_grad}


def adapter_change(start: dict[str, torch.Tensor], model: Any) -> float:
    """Largest absolute change of a trainable weight since the start. Raises Stopped when a weight is not finite."""
    largest = 0.0
    for name, value in adapter_state(model).items():
        if not torch.isfinite(value).all():
            raise Stopped("nonfinite", f"the adapter holds non-finite weights, first in {name}")
        largest = max(largest, float((value - start[name]).abs().max()))
    return largest


def policy_finite(model: Any, tokenizer: Any, prompt: str) -> bool:
    """Whether the policy's logits on a prompt are all finite. Finite weights may still overflow on the way."""
    model.eval()
    with torch.no_grad():
        inputs = tokenizer(prompt, return_tensors="pt").to(model.device)
        return bool(torch.isfinite(model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits).all())
