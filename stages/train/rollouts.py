"""The `compiled` engine in a trainer: takes the place of `generate`, falls back to it, and logs how far both sides differ."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from stages.contracts.generation import GenerationSettings, OwnGenerationSettings
from stages.train.decoding import Choice, Decoder, Shape, end_ids
from stages.train.guards import InvalidLogits
from stages.train.rollout_model import LARGEST_SHARE, RolloutModel, Unsupported, extra_bytes, rollout_model

TOLERANCE = 0.3
"""Largest mean |log p(rollout) - log p(training)| a token, in nats, with which the engine is trusted. bfloat16 alone gives 0.02-0.06 on
random weights of 1.5B to 7B; a wrong place or mask gives more than 1."""
PARTS = ("input_ids", "attention_mask", "generation_config")
"""What TRL calls `generate` with, by name."""
METRIC = "sampling/sampling_logp_difference"
"""TRL's own name for the same measure with vLLM: `/mean` and `/max` over the tokens of a step."""


class Rollouts:
    """Attach to a trainer of TRL after it is built; PPO calls `sampled` and `difference` itself. `said["generation"]` is what generated,
    for the ledger."""

    def __init__(self, settings: GenerationSettings | OwnGenerationSettings, logits: InvalidLogits | None, said: dict[str, str]) -> None:
        self.settings, self.logits, self.said = settings, logits, said
        self.refused: str | None = None
        self.compiled = settings.torch_compile
        self._model: RolloutModel | None = None
        self._decoder: Decoder | None = None
        self._sampled: dict[tuple[int, ...], Tensor] = {}

    def attach(self, trainer: Any) -> None:
        """From now on the trainer's policy samples here, and the loss's log-probabilities are compared with the rollout's."""
        policy = trainer.accelerator.unwrap_model(trainer.model)
        plain, read = policy.generate, trainer._get_per_token_logps_and_entropies

        def generate(*arguments: Any, **named: Any) -> Any:
            found = self.sampled(policy, *(named.get(name) for name in PARTS)) if not arguments else None
            return plain(*arguments, **named) if found is None else found

        def compared(model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, *rest: Any, **named: Any) -> Any:
            found = read(model, input_ids, attention_mask, logits_to_keep, *rest, **named)
            if torch.is_grad_enabled() and self._sampled:
                self._compare(trainer, input_ids, attention_mask, logits_to_keep, found[0].detach())
            return found

        policy.generate, trainer._get_per_token_logps_and_entropies = generate, compared

    def sampled(self, policy: Any, ids: Tensor, attention: Tensor, config: Any) -> Tensor | None:
        """Prompts with completions as `generate` returns them, padded to `max_new_tokens`; None: the plain way must do it. `config` has
        the names of transformers' GenerationConfig."""
        if self.refused:
            return None
        try:
            return self._fast(policy, ids, attention, config)
        except Unsupported as error:
            self._refuse(str(error))
        except (RuntimeError, AttributeError, TypeError, ValueError, KeyError, NotImplementedError) as error:
            if "not finite" in str(error):
                raise
            self._refuse(f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}")
        return None

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _fast(self, policy: Any, ids: Tensor, attention: Tensor, config: Any) -> Tensor:
        decoder = self._ready(policy, ids, config)
        assert self._model is not None
        self._model.refresh()
        found = decoder.run(ids, attention)
        if not bool(torch.isfinite(found.logps).all()):
            raise RuntimeError("probabilities of the rollout are not finite")
        if self.logits is not None:
            self.logits.positions += found.repaired
        ends = set(end_ids(config.eos_token_id))
        shown, tokens, logps = attention.bool().cpu(), found.tokens.cpu(), found.logps.cpu()
        self._sampled = {}
        for row, (prompt, completion) in enumerate(zip(ids.cpu(), tokens, strict=True)):
            kept = next((place + 1 for place, token in enumerate(completion.tolist()) if token in ends), len(completion))
            key = (*prompt[shown[row]].tolist(), -1, *completion[:kept].tolist())
            self._sampled[key] = logps[row, :kept]
        return torch.cat([ids, found.tokens], 1)

    def _ready(self, policy: Any, ids: Tensor, config: Any) -> Decoder:
        """A decoder for these prompts: the one there is when they fit in, else a new one, wide enough for both."""
        choice = _choice(config, repair=self.logits is not None)
        width = -(-ids.shape[1] // self.settings.bucket) * self.settings.bucket
        if self._decoder is not None:
            width = max(width, self._decoder.shape.prompt)
        shape = Shape(ids.shape[0], width, int(config.max_new_tokens))
        if self._decoder is not None and (self._decoder.shape, self._decoder.choice) == (shape, choice):
            return self._decoder
        self._decoder = None
        if self._model is None:
            _room(policy, shape)
            self._model = rollout_model(policy)
        self._model.refresh()
        self._decoder = self._built(shape, choice)
        return self._decoder

    def _built(self, shape: Shape, choice: Choice) -> Decoder:
        assert self._model is not None
        self.said["generation"] = "compiled"
        if self.compiled:
            try:
                return _tried(Decoder(self._model.model, shape, choice, compiled=True), choice)
            except Exception as error:  # a compiler may raise anything
                self.compiled = False
                print(f"generation: torch.compile failed ({type(error).__name__}), kernels are recorded as they are", file=sys.stderr)
                torch._dynamo.reset()
        self.said["generation"] = "compiled, without torch.compile"
        return Decoder(self._model.model, shape, choice, compiled=False)

    def _compare(self, trainer: Any, ids: Tensor, attention: Tensor, width: int, logps: Tensor) -> None:
        found = self.difference(ids, attention, width, logps)
        for name, value in (found or {}).items():
            trainer._metrics["train"][name].append(value)

    def difference(self, ids: Tensor, attention: Tensor, width: int, logps: Tensor) -> dict[str, float] | None:
        """METRIC's mean and maximum over the tokens of these rows, whose last `width` places are completions, against the log-probabilities
        that training gives them; None when none of the rows was sampled here. Too large a mean ends the use of the engine."""
        differences = []
        all_ids, shown, logps = ids.cpu(), attention.bool().cpu(), logps.float().cpu()
        for row in range(len(all_ids)):
            prompt, completion = all_ids[row, :-width][shown[row, :-width]], all_ids[row, -width:][shown[row, -width:]]
            sampled = self._sampled.pop((*prompt.tolist(), -1, *completion.tolist()), None)
            if sampled is not None:
                differences.append((sampled - logps[row, : len(completion)]).abs())
        if not differences:
            return None
        found = torch.cat(differences)
        mean, largest = float(found.mean()), float(found.max())
        if mean > TOLERANCE:
            self._refuse(f"rollout and training differ by {mean:.3f} nats a token")
        return {f"{METRIC}/mean": mean, f"{METRIC}/max": largest}

    def _refuse(self, why: str) -> None:
        self.refused, self.said["generation"] = why, f"transformers: {why}"
        self._decoder = self._model = None
        self._sampled = {}
        print(f"generation: {why}; transformers generates instead, slower", file=sys.stderr, flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _tried(decoder: Decoder, choice: Choice) -> Decoder:
    """The decoder after one token on a CPU: there nothing was compiled yet. A GPU has captured one."""
    if decoder.device.type == "cpu":
        state = torch.get_rng_state()
        prompt = torch.full((decoder.shape.rows, 2), choice.pad, dtype=torch.long)
        decoder.run(prompt, torch.ones_like(prompt), every=1)
        torch.set_rng_state(state)
    return decoder


def _choice(config: Any, repair: bool) -> Choice:
    """How tokens are chosen. Raises Unsupported for a setting that the engine does not know; octavo's specs have none."""
    if config.top_k or config.min_p or config.repetition_penalty not in (None, 1.0):
        raise Unsupported("top_k, min_p or a repetition penalty is set")
    top_p = 1.0 if config.top_p is None else float(config.top_p)
    return Choice(float(config.temperature or 1.0), top_p, end_ids(config.eos_token_id), int(config.pad_token_id), repair)


def _room(policy: Any, shape: Shape) -> None:
    """Raises Unsupported when the copy and its cache would take too much of what the device has free."""
    device = policy.device
    if device.type != "cuda":
        return
    needed = extra_bytes(policy, shape.rows, shape.prompt + shape.new)
    free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if needed > LARGEST_SHARE * free:
        raise Unsupported(f"no memory for a copy that samples: {needed / 2**30:.1f} GiB needed, {free / 2**30:.1f} free")
