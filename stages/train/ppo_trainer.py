"""PPO with plain torch: sample, score, then some passes over the batch in minibatches. One object, one device.

Accelerate is not used: a run has one device, gradients are clipped and accumulated here, and a checkpoint holds exactly what this file
makes, so that a resumed run equals an undisturbed one. Callbacks are transformers' TrainerCallbacks, called as its Trainer calls them.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import set_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor
from transformers import TrainerControl, TrainerState, get_scheduler

from stages.contracts.ppo import PpoSettings
from stages.train import ppo_math
from stages.train.data import Row
from stages.train.ppo_policy import Policy, Sampled

Logs = dict[str, float | None]
Reward = Callable[..., list[float | None]]
KEPT_CHECKPOINTS = 2


@dataclass(frozen=True)
class Batch:
    """A scored batch. Tensors are (completions, tokens); `mask` leaves out completions whose reward is unknown."""

    sampled: Sampled
    mask: Tensor
    logps: Tensor
    values: Tensor
    advantages: Tensor
    """Whitened."""
    returns: Tensor

    def rows(self, which: Tensor) -> Batch:
        parts = (self.mask, self.logps, self.values, self.advantages, self.returns)
        return Batch(self.sampled.rows(which), *(part[which] for part in parts))


class PpoTrainer:
    """Everything of a run that changes while it trains. `rows` are data rows, each with its prompt as the model sees it."""

    def __init__(
        self,
        settings: PpoSettings,
        policy: Policy,
        tokenizer: Any,
        rows: Sequence[tuple[Row, str]],
        *,
        ends: set[int],
        seed: int,
        reward: Reward,
        callbacks: Sequence[Any],
    ) -> None:
        self.settings, self.policy, self.tokenizer, self.rows = settings, policy, tokenizer, rows
        self.ends, self.seed, self.reward, self.callbacks = ends, seed, reward, callbacks
        kl = settings.kl
        adaptive, coefficient = kl.controller == "adaptive", kl.init_kl_coef
        self.kl = ppo_math.AdaptiveKl(coefficient, kl.target, kl.horizon) if adaptive else ppo_math.FixedKl(coefficient)
        self.optimizer = torch.optim.AdamW(policy.trainable(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
        self.scheduler = get_scheduler(settings.lr_scheduler_type, self.optimizer, settings.warmup_steps, settings.max_steps)
        self.state, self.control, self.tokens = TrainerState(max_steps=settings.max_steps), TrainerControl(), 0

    def train(self, save: Callable[[PpoTrainer], None]) -> None:
        """Update until `max_steps`, or until a callback asks to stop. `save` is called at every `save_steps` and at the end."""
        while self.state.global_step < self.settings.max_steps and not self.control.should_training_stop:
            begun = time.monotonic()
            logs = self.update()
            self.state.global_step += 1
            logs["step_time"] = time.monotonic() - begun
            self._notify("on_log", logs=logs)
            self._notify("on_step_end")
            step = self.state.global_step
            if step % self.settings.save_steps == 0 or step == self.settings.max_steps or self.control.should_training_stop:
                save(self)

    def update(self) -> Logs:
        """One update, and what is logged of it (stages/contracts/history.py)."""
        batch, logs = self._scored()
        rate = self.scheduler.get_last_lr()[0]
        parts = self._learn(batch) if float(batch.mask.sum()) else {"loss": None}
        self.scheduler.step()
        return {**logs, **parts, "learning_rate": rate, "num_tokens": float(self.tokens)}

    def prompts(self) -> list[tuple[Row, str]]:
        """Rows of the next batch with their prompts: the data in a new order each time round, decided by the seed and the step alone."""
        size, first = len(self.rows), self.state.global_step * self.settings.batch_size
        places = range(first, first + self.settings.batch_size)
        orders = {round_: self._order(round_) for round_ in {place // size for place in places}}
        return [self.rows[orders[place // size][place % size]] for place in places]

    def _order(self, round_: int) -> list[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + round_)
        return list(torch.randperm(len(self.rows), generator=generator).tolist())

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _scored(self) -> tuple[Batch, Logs]:
        settings, drawn = self.settings, self.prompts()
        texts = [text for _, text in drawn]
        self.policy.train_mode(False)
        sampled = self.policy.sample(self.tokenizer, texts, self.ends, settings.max_completion_length, settings.temperature, settings.top_p)
        ids = [row[: int(length)] for row, length in zip(sampled.completions.tolist(), sampled.mask.sum(1).tolist(), strict=True)]
        self.tokens += int(sampled.attention.sum())
        completions = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        earned = self.reward(texts, completions, ids, id=[row["id"] for row, _ in drawn], trainer_state=self.state)
        pieces = list(self._pieces(sampled))
        readings = [self.policy.read(piece, settings.scored_at, entropy=True) for piece in pieces]
        logps, values, entropy = (torch.cat(parts) for parts in zip(*readings, strict=True))
        reference = torch.cat([self.policy.reference(piece, settings.scored_at) for piece in pieces])
        mask = sampled.mask
        known = torch.tensor([score is not None for score in earned], device=mask.device)
        scores = torch.tensor([0.0 if score is None else score for score in earned], device=mask.device)
        difference = self._sampling_difference(sampled, logps)
        kl = ppo_math.kl_of_tokens(logps, reference, mask, settings.kl.estimator)
        coefficient = self.kl.coefficient
        rewards = ppo_math.token_rewards(scores, kl, coefficient, mask)
        counted = mask * known[:, None]
        if settings.whiten_rewards:
            rewards = ppo_math.whitened(rewards, counted, shift=False)
        plain, returns = ppo_math.advantages(rewards * counted, values * mask, counted, settings.gamma, settings.lam)
        whole_kl = float(kl.sum(1).mean())
        self.kl.update(whole_kl, len(earned))
        penalty = -coefficient * kl.sum(1)
        any_known = bool(known.any())
        logs: Logs = {
            "objective.kl": whole_kl,
            "objective.kl_token": float(ppo_math.masked_mean(kl, mask)),
            "kl": float(ppo_math.masked_mean(ppo_math.kl_of_tokens(logps, reference, mask, "k3"), mask)),
            "objective.entropy": float(-(logps * mask).sum(1).mean()),
            "entropy": float(ppo_math.masked_mean(entropy, mask)),
            "objective.non_score_reward": float(penalty.mean()),
            "objective.scores": float(scores[known].mean()) if any_known else None,
            "objective.rlhf_reward": float((scores + penalty)[known].mean()) if any_known else None,
            "kl_coef": coefficient,
            "value.mean": float(ppo_math.masked_mean(values, mask)),
            "value.error": float(ppo_math.masked_mean((values - returns) ** 2, counted)) if any_known else None,
            "value.explained_variance": ppo_math.explained_variance(values, returns, counted),
            "returns": float(ppo_math.masked_mean(returns, counted)) if any_known else None,
            "advantages": float(ppo_math.masked_mean(plain, counted)) if any_known else None,
            **difference,
        }
        return Batch(sampled, counted, logps, values * mask, ppo_math.whitened(plain, counted), returns), logs

    def _sampling_difference(self, sampled: Sampled, logps: Tensor) -> dict[str, float]:
        """How far the engine's log-probabilities and those of the policy differ; nothing where transformers sampled, or where what is
        scored is another distribution than what is sampled."""
        rollouts, settings = self.policy.rollouts, self.settings
        if rollouts is None or settings.scored_at != settings.temperature:
            return {}
        return rollouts.difference(sampled.ids, sampled.attention, sampled.width, logps)

    def _pieces(self, sampled: Sampled) -> Iterator[Sampled]:
        for which in torch.arange(len(sampled.ids), device=sampled.ids.device).split(self.settings.mini_batch_size):
            yield sampled.rows(which)

    def _learn(self, batch: Batch) -> Logs:
        """All optimizer steps of an update. Means over tokens are exact under accumulation: each minibatch weighs as its tokens do."""
        settings, seen, norms = self.settings, [], []
        steps, stopped = 0, False
        self.policy.train_mode(True)
        for _ in range(settings.ppo_epochs):
            order = torch.randperm(len(batch.mask)).to(batch.mask.device)
            for group in order.split(settings.mini_batch_size * settings.gradient_accumulation_steps):
                whole = batch.rows(group)
                if not float(whole.mask.sum()):
                    continue
                measured = self._gradients(whole)
                seen.append(measured)
                if settings.target_kl is not None and float(measured["policy.approxkl"]) > ppo_math.STOP_AT * settings.target_kl:
                    stopped = True
                    break
                norms.append(float(torch.nn.utils.clip_grad_norm_(self.policy.trainable(), settings.max_grad_norm)))
                self._notify("on_pre_optimizer_step", model=self.policy)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                steps += 1
            if stopped:
                break
        self.optimizer.zero_grad(set_to_none=True)
        self.policy.train_mode(False)
        parts: Logs = {name: sum(measured[name] for measured in seen) / len(seen) for name in seen[0]}
        first: Logs = {"policy.first_ratio": seen[0]["policy.ratio"]}
        return {**parts, **first, "optimizer_steps": float(steps), "grad_norm": sum(norms) / len(norms) if norms else None}

    def _gradients(self, whole: Batch) -> dict[str, float]:
        """Backward through the minibatches of one optimizer step; token-weighted means of what is logged."""
        settings, tokens = self.settings, float(whole.mask.sum())
        means: dict[str, float] = {}
        for which in torch.arange(len(whole.mask), device=whole.mask.device).split(settings.mini_batch_size):
            part = whole.rows(which)
            weight = float(part.mask.sum()) / tokens
            if not weight:
                continue
            logps, values, _ = self.policy.read(part.sampled, settings.scored_at)
            policy = ppo_math.policy_loss(logps, part.logps, part.advantages, part.mask, settings.cliprange)
            value, clipped = ppo_math.value_loss(values, part.values, part.returns, part.mask, settings.cliprange_value)
            loss = policy.loss + settings.vf_coef * value
            (loss * weight).backward()
            measured = {
                "loss": loss,
                "loss.policy": policy.loss,
                "loss.value": value,
                "policy.ratio": policy.ratio,
                "policy.clipfrac": policy.clipped,
                "policy.approxkl": policy.approxkl,
                "value.clipfrac": clipped,
            }
            for name, tensor in measured.items():
                means[name] = means.get(name, 0.0) + weight * float(tensor.detach())
        return means

    def _notify(self, event: str, **arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(None, self.state, self.control, **arguments)


def save(trainer: PpoTrainer, output: Path) -> None:
    """Write `checkpoint-<step>`: beside it first, then renamed. Older ones than the newest two go."""
    step = trainer.state.global_step
    whole, partial = output / f"checkpoint-{step}", output / f".partial-{step}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    trainer.policy.network.save_pretrained(str(partial))
    torch.save(trainer.policy.value_head.state_dict(), partial / "value_head.pt")
    torch.save(trainer.optimizer.state_dict(), partial / "optimizer.pt")
    torch.save(trainer.scheduler.state_dict(), partial / "scheduler.pt")
    torch.save(_random(), partial / "rng_state.pth")
    state = {"global_step": step, "tokens": trainer.tokens, "kl_coef": trainer.kl.coefficient}
    (partial / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    shutil.rmtree(whole, ignore_errors=True)
    os.replace(partial, whole)
    for old in sorted(output.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))[:-KEPT_CHECKPOINTS]:
        shutil.rmtree(old)


def restore(trainer: PpoTrainer, checkpoint: Path) -> None:
    """Put everything back as `save` wrote it."""
    device = trainer.policy.network.device
    set_peft_model_state_dict(trainer.policy.network, load_file(checkpoint / "adapter_model.safetensors", device=str(device)))
    trainer.policy.value_head.load_state_dict(torch.load(checkpoint / "value_head.pt", map_location=device))
    trainer.optimizer.load_state_dict(torch.load(checkpoint / "optimizer.pt", map_location=device))
    trainer.scheduler.load_state_dict(torch.load(checkpoint / "scheduler.pt"))
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    trainer.state.global_step, trainer.tokens, trainer.kl.coefficient = state["global_step"], state["tokens"], state["kl_coef"]
    numbers = torch.load(checkpoint / "rng_state.pth", weights_only=False)
    random.setstate(numbers["python"])
    np.random.set_state(numbers["numpy"])
    torch.set_rng_state(numbers["torch"])
    if numbers["cuda"]:
        torch.cuda.set_rng_state_all(numbers["cuda"])


def _random() -> dict[str, object]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state(), "cuda": cuda}
