"""Guards of a training run: gradients and logits that are not finite are counted, skipped or repaired."""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainerCallback

from stages.contracts.training import Guards
from stages.train.attempts import Stopped


class NonfiniteGuard(TrainerCallback):  # type: ignore[misc]
    """Looks at gradients before each optimizer step. A NaN loss is logged as 0.0 by the trainer, so the gradient is the evidence."""

    def __init__(self, guards: Guards, in_a_row: int = 0) -> None:
        """`in_a_row`: skipped steps in a row that the attempts before have left behind."""
        self.guards, self.in_a_row = guards, in_a_row
        self.skipped = False
        """Whether an optimizer step was skipped since the last log; the recorder takes it back."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        if not gradients or bool(torch.isfinite(torch.stack(torch._foreach_norm(gradients))).all()):
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


class InvalidLogits:
    """Repairs logits that are not finite while a model samples, and counts where: one a row and token of a generation batch."""

    def __init__(self) -> None:
        self.positions = 0

    def attach(self, model: Any) -> None:
        """From now on `model.generate` asks us before each token. Adapters put on the model later call the same `generate`."""
        from transformers import LogitsProcessorList

        generate = model.generate

        def repaired(*arguments: Any, logits_processor: Any = None, **rest: Any) -> Any:
            return generate(*arguments, logits_processor=LogitsProcessorList([*(logits_processor or ()), self]), **rest)

        model.generate = repaired

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """NaN and minus infinity become the lowest finite number, infinity the highest. A row with none left is uniform."""
        finite = torch.isfinite(scores)
        self.positions += int((~finite.all(dim=-1)).sum())
        limits = torch.finfo(scores.dtype)
        return torch.nan_to_num(scores, nan=limits.min, posinf=limits.max, neginf=limits.min)

    def taken(self) -> int:
        """The count since the last time it was taken."""
        positions, self.positions = self.positions, 0
        return positions


def policy_finite(model: Any, tokenizer: Any, prompt: str) -> bool:
    """Whether the policy's logits on a prompt are all finite. Finite weights may still overflow on the way."""
    model.eval()
    with torch.no_grad():
        inputs = tokenizer(prompt, return_tensors="pt").to(model.device)
        return bool(torch.isfinite(model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits).all())
