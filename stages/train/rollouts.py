"""The `compiled` engine in a trainer: it takes the place of `generate`, falls back to it, and logs how far sampling and training differ."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from stages.contracts.training import GenerationSettings, OwnGenerationSettings
from stages.train.decoding import Choice, Decoder, RolloutModel, Shape, Unsupported, rollout_model
from stages.train.guards import InvalidLogits
from stages.train.stop_texts import NO_STOPS, StopTexts

TOLERANCE = 0.3
"""Largest mean |log p(rollout) - log p(training)| a token, in nats, with which the engine is trusted. bfloat16 alone gives 0.02-0.06 on
random weights of 1.5B to 7B; a wrong place or mask gives more than 1."""
METRIC = "sampling/sampling_logp_difference"
"""TRL's own name for the same measure with vLLM: `/mean` and `/max` over the tokens of a step."""
LARGEST_SHARE = 0.5
"""Largest share of the device's free memory that the copy and its cache may take: the training step needs the rest."""
FAULTS = (Unsupported, RuntimeError, AttributeError, TypeError, ValueError, KeyError, NotImplementedError)


class Rollouts:
    """Attach to a trainer of TRL after it is built; PPO calls `sampled` and `difference` itself. `notes["generation"]` says for the ledger
    what generated."""

    def __init__(
        self,
        settings: GenerationSettings | OwnGenerationSettings,
        logits: InvalidLogits | None,
        notes: dict[str, str],
        stops: StopTexts = NO_STOPS,
    ) -> None:
        self.settings, self.logits, self.notes, self.stops = settings, logits, notes, stops
        self.refused: str | None = None
        self._compile = settings.torch_compile
        self._model: RolloutModel | None = None
        self._decoder: Decoder | None = None
        self._sampled: dict[tuple[int, ...], Tensor] = {}

    def attach(self, trainer: Any) -> None:
        """From now on the trainer's policy samples here, and the loss's log-probabilities are compared with the rollout's."""
        policy = trainer.accelerator.unwrap_model(trainer.model)
        plain, read = policy.generate, trainer._get_per_token_logps_and_entropies

        def generate(*arguments: Any, **named: Any) -> Any:
            parts = (named.get(name) for name in ("input_ids", "attention_mask", "generation_config"))  # as TRL passes them
            output = self.sampled(policy, *parts) if not arguments else None
            return plain(*arguments, **named) if output is None else output

        def compared(model: Any, ids: Tensor, attention: Tensor, width: int, *rest: Any, **named: Any) -> Any:
            output = read(model, ids, attention, width, *rest, **named)
            if torch.is_grad_enabled() and self._sampled:
                for name, value in self.difference(ids, attention, width, output[0].detach()).items():
                    trainer._metrics["train"][name].append(value)
            return output

        policy.generate, trainer._get_per_token_logps_and_entropies = generate, compared

    def sampled(self, policy: Any, ids: Tensor, attention: Tensor, config: Any) -> Tensor | None:
        """Prompts with completions as `generate` returns them, padded to `max_new_tokens`; None: transformers must do it. `config` has
        the names of transformers' GenerationConfig."""
        if self.refused:
            return None
        try:
            return self._generated(policy, ids, attention, config)
        except FAULTS as error:
            if "not finite" in str(error):
                raise
            first_line = f"{error}".partition("\n")[0][:160]
            self._refuse(first_line if isinstance(error, Unsupported) else f"{type(error).__name__}: {first_line}")
        return None

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _generated(self, policy: Any, ids: Tensor, attention: Tensor, config: Any) -> Tensor:
        declared = config.eos_token_id
        ends = () if declared is None else (declared,) if isinstance(declared, int) else tuple(declared)
        top_p = 1.0 if config.top_p is None else float(config.top_p)
        limits = int(config.top_k or 0), float(config.min_p or 0.0), float(config.repetition_penalty or 1.0)
        choice = Choice(float(config.temperature or 1.0), top_p, ends, int(config.pad_token_id), self.logits is not None, *limits)
        width = -(-ids.shape[1] // self.settings.bucket) * self.settings.bucket
        if self._decoder is not None:
            width = max(width, self._decoder.shape.prompt)
        decoder = self._ready(policy, Shape(ids.shape[0], width, int(config.max_new_tokens)), choice)
        tokens, logps, repaired = decoder.run(ids, attention, stopped=self.stops.are_in if self.stops.texts else None)
        if not bool(torch.isfinite(logps).all()):
            raise RuntimeError("probabilities of the rollout are not finite")
        if self.logits is not None:
            self.logits.positions += repaired
        shown, logps, self._sampled = attention.bool().cpu(), logps.cpu(), {}
        for row, (prompt, completion) in enumerate(zip(ids.cpu(), tokens.cpu().tolist(), strict=True)):
            kept = self.stops.length(completion, ends) or len(completion)
            self._sampled[*prompt[shown[row]].tolist(), -1, *completion[:kept]] = logps[row, :kept]
        return torch.cat([ids, tokens], 1)

    def _ready(self, policy: Any, shape: Shape, choice: Choice) -> Decoder:
        """The decoder of a shape over the policy as it is now. Raises Unsupported when the copy and its cache take too much memory."""
        free, before = _memory(policy.device)
        if self._model is None:
            self._model = rollout_model(policy)
        self._model.refresh()
        if self._decoder is None or (self._decoder.shape, self._decoder.choice) != (shape, choice):
            self._decoder = None  # frees its cache before the next one is made
            self._decoder = self._build(self._model.model, shape, choice)
            taken = _memory(policy.device)[1] - before
            if taken > LARGEST_SHARE * free:
                raise Unsupported(f"no memory for a copy that samples: {taken / 2**30:.1f} GiB taken, {free / 2**30:.1f} were free")
        return self._decoder

    def _build(self, model: Any, shape: Shape, choice: Choice) -> Decoder:
        if self._compile:
            try:
                self.notes["generation"] = "compiled"
                return Decoder(model, shape, choice, compiled=True)
            except Exception as error:  # a compiler may raise anything
                self._compile = False
                print(f"generation: torch.compile failed ({type(error).__name__}), kernels are recorded as they are", file=sys.stderr)
                torch._dynamo.reset()
        self.notes["generation"] = "compiled, without torch.compile"
        return Decoder(model, shape, choice, compiled=False)

    def difference(self, ids: Tensor, attention: Tensor, width: int, logps: Tensor) -> dict[str, float]:
        """METRIC's mean and maximum over the tokens of these rows, whose last `width` places are completions, against the log-probabilities
        that training gives them; empty when none of the rows was sampled here. Too large a mean ends the use of the engine."""
        differences = []
        for row, shown, trained in zip(ids.cpu(), attention.bool().cpu(), logps.float().cpu(), strict=True):
            prompt, completion = row[:-width][shown[:-width]].tolist(), row[-width:][shown[-width:]].tolist()
            sampled = self._sampled.pop((*prompt, -1, *completion), None)
            if sampled is not None:
                differences.append((sampled - trained[: len(completion)]).abs())
        if not differences:
            return {}
        everything = torch.cat(differences)
        mean = float(everything.mean())
        if mean > TOLERANCE:
            self._refuse(f"rollout and training differ by {mean:.3f} nats a token")
        return {f"{METRIC}/mean": mean, f"{METRIC}/max": float(everything.max())}

    def _refuse(self, why: str) -> None:
        self.refused, self.notes["generation"] = why, f"transformers: {why}"
        self._decoder = self._model = None
        self._sampled = {}
        print(f"generation: {why}; transformers generates instead, slower", file=sys.stderr, flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _memory(device: torch.device) -> tuple[int, int]:
    """Bytes (free, allocated) of a GPU; (1, 0) elsewhere."""
    if device.type != "cuda":
        return 1, 0
    allocated = torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - allocated, allocated
