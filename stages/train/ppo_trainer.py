"""PPO with plain torch: sample, score, then some passes over the batch in minibatches. One object, one device.

Accelerate is not used: a run has one device, gradients are clipped and accumulated here, and a checkpoint holds exactly what this file
makes, so that a resumed run equals an undisturbed one. Callbacks are transformers' TrainerCallbacks, called as its Trainer calls them.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import set_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor
from transformers import TrainerControl, TrainerState, get_scheduler

from stages.contracts.files import make_folder, read_json, write_text
from stages.contracts.ppo import PpoSettings
from stages.train import ppo_math
from stages.train.data import Row
from stages.train.ppo_policy import Policy, SampledBatch
from stages.train.stop_texts import NO_STOPS, StopTexts

Logs = dict[str, float | None]
Reward = Callable[..., list[float | None]]
KEPT_CHECKPOINTS = 2


@dataclass(frozen=True)
class Batch:
    """A scored batch. Tensors are (completions, tokens); `mask` leaves out completions whose reward is unknown."""

    sampled: SampledBatch
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
        stops: StopTexts = NO_STOPS,
        seed: int,
        reward: Reward,
        callbacks: Sequence[Any],
    ) -> None:
        self.settings, self.policy, self.tokenizer, self.rows = settings, policy, tokenizer, rows
        self.ends, self.stops, self.seed, self.reward, self.callbacks = ends, stops, seed, reward, callbacks
        self.optimizer = torch.optim.AdamW(
            policy.trainable(),
            lr=settings.learning_rate,
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
        )
        self.scheduler = get_scheduler(settings.lr_scheduler_type, self.optimizer, settings.warmup, settings.max_steps)
        self.state, self.control = TrainerState(max_steps=settings.max_steps), TrainerControl()
        self.tokens, self.kl_coef = 0, settings.kl.init_kl_coef

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
        parts = self._learn(batch) if float(batch.mask.sum()) else {"loss": None, **self._steps(0, 0, self._planned())}
        self.scheduler.step()
        return {**logs, **parts, "learning_rate": rate, "num_tokens": float(self.tokens)}

    def prompts(self) -> list[tuple[Row, str]]:
        """Rows of the next batch with their prompts: the data in a new order each time round, decided by the seed and the step alone."""
        size, first = len(self.rows), self.state.global_step * self.settings.batch_size
        end = first + self.settings.batch_size
        drawn: list[tuple[Row, str]] = []
        for number in range(first // size, -(-end // size)):
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
            order = torch.randperm(size, generator=generator)[max(0, first - number * size) : end - number * size]
            drawn += [self.rows[place] for place in order.tolist()]
        return drawn

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _scored(self) -> tuple[Batch, Logs]:
        settings, drawn = self.settings, self.prompts()
        texts = [text for _, text in drawn]
        self.policy.train_mode(False)
        how = (settings.max_completion_length, settings.temperature, settings.top_p)
        sampled = self.policy.sample(self.tokenizer, texts, self.ends, *how, self.stops)
        ids = [row[: int(length)] for row, length in zip(sampled.completions.tolist(), sampled.mask.sum(1).tolist(), strict=True)]
        self.tokens += int(sampled.attention.sum())
        completions = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        earned = self.reward(texts, completions, ids, id=[row["id"] for row, _ in drawn], trainer_state=self.state)
        pieces = [sampled.rows(which) for which in self._minibatches(sampled.mask)]
        readings = [self.policy.read(piece, settings.scored_at, entropy=True) for piece in pieces]
        logps, values, entropy = (torch.cat(parts) for parts in zip(*readings, strict=True))
        reference = torch.cat([self.policy.reference(piece, settings.scored_at) for piece in pieces])
        mask, mean = sampled.mask, ppo_math.masked_mean
        known = torch.tensor([score is not None for score in earned], device=mask.device)
        scores = torch.tensor([0.0 if score is None else score for score in earned], device=mask.device)
        kl = ppo_math.kl_of_tokens(logps, reference, mask, settings.kl.estimator)
        rewards = ppo_math.token_rewards(scores, kl, self.kl_coef, mask)
        counted = mask * known[:, None]
        if settings.whiten_rewards:
            rewards = ppo_math.whitened(rewards, counted, shift=False)
        advantages, returns = ppo_math.advantages(rewards * counted, values * mask, counted, settings.gamma, settings.lam)
        penalty = -self.kl_coef * kl.sum(1)
        logs: Logs = {
            "objective.kl": float(kl.sum(1).mean()),
            "objective.kl_token": float(mean(kl, mask)),
            "kl": float(mean(ppo_math.kl_of_tokens(logps, reference, mask, "k3"), mask)),
            "objective.entropy": float(-(logps * mask).sum(1).mean()),
            "entropy": float(mean(entropy, mask)),
            "objective.non_score_reward": float(penalty.mean()),
            "kl_coef": self.kl_coef,
            "value.mean": float(mean(values, mask)),
            "value.explained_variance": ppo_math.explained_variance(values, returns, counted),
        }
        of_known = {
            "objective.scores": scores[known].mean(),
            "objective.rlhf_reward": (scores + penalty)[known].mean(),
            "value.error": mean((values - returns) ** 2, counted),
            "returns": mean(returns, counted),
            "advantages": mean(advantages, counted),
        }
        logs |= {name: float(value) if known.any() else None for name, value in of_known.items()}
        if self.policy.rollouts is not None and settings.scored_at == settings.temperature:  # else another distribution is scored
            logs |= self.policy.rollouts.difference(sampled.ids, sampled.attention, sampled.width, logps)
        if settings.kl.controller == "adaptive":
            measured, target, horizon = float(kl.sum(1).mean()), settings.kl.target, settings.kl.horizon
            self.kl_coef = ppo_math.adapted_coefficient(self.kl_coef, measured, target, len(earned), horizon)
        return Batch(sampled, counted, logps, values * mask, ppo_math.whitened(advantages, counted), returns), logs

    def _minibatches(self, mask: Tensor) -> Sequence[Tensor]:
        """Numbers of the rows of each minibatch."""
        rows: Sequence[Tensor] = torch.arange(len(mask), device=mask.device).split(self.settings.mini_batch_size)
        return rows

    def _planned(self) -> int:
        """Optimizer steps of an update of which none is left out."""
        settings = self.settings
        return settings.ppo_epochs * math.ceil(settings.batch_size / (settings.mini_batch_size * settings.gradient_accumulation_steps))

    def _steps(self, taken: int, nonfinite: int, unscored: int) -> Logs:
        """Optimizer steps taken, and why others were not. Those that are neither were left out when `target_kl` ended the update."""
        planned = self._planned()
        left_out = {"target_kl": planned - taken - nonfinite - unscored, "nonfinite": nonfinite, "unscored": unscored}
        counts = {f"left_out.{why}": float(count) for why, count in left_out.items()}
        return {"optimizer_steps": float(taken), "optimizer_steps_share": taken / planned, **counts}

    def _learn(self, batch: Batch) -> Logs:
        """All optimizer steps of an update. Means over tokens are exact under accumulation: each minibatch weighs as its tokens do. A step
        that is not taken is in no mean, but for the first ratio, which is measured before any step."""
        settings, parameters = self.settings, self.policy.trainable()
        measured: list[dict[str, float]] = []
        norms: list[float] = []
        first: dict[str, float] = {}
        nonfinite = unscored = 0
        stopped = False
        self.policy.train_mode(True)
        for _ in range(settings.ppo_epochs):
            order = torch.randperm(len(batch.mask)).to(batch.mask.device)
            for group in order.split(settings.mini_batch_size * settings.gradient_accumulation_steps):
                whole = batch.rows(group)
                if not float(whole.mask.sum()):
                    unscored += 1
                    continue
                step = self._gradients(whole)
                first = first or step
                if settings.target_kl is not None and step["policy.approxkl"] > ppo_math.STOP_AT * settings.target_kl:
                    stopped = True
                    break
                norm = float(torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm))
                self._notify("on_pre_optimizer_step", model=self.policy)
                if all(parameter.grad is None for parameter in parameters):  # the guard took them away
                    nonfinite += 1
                    continue
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                measured.append(step)
                norms.append(norm)
            if stopped:
                break
        self.optimizer.zero_grad(set_to_none=True)
        self.policy.train_mode(False)
        means: Logs = {name: sum(step[name] for step in measured) / len(measured) if measured else None for name in first}
        means |= {"policy.first_ratio": first["policy.ratio"], **self._steps(len(norms), nonfinite, unscored)}
        return means | {"grad_norm": sum(norms) / len(norms) if norms else None}

    def _gradients(self, whole: Batch) -> dict[str, float]:
        """Backward through the minibatches of one optimizer step; token-weighted means of what is logged."""
        settings, tokens = self.settings, float(whole.mask.sum())
        means: dict[str, float] = {}
        for which in self._minibatches(whole.mask):
            part = whole.rows(which)
            weight = float(part.mask.sum()) / tokens
            if not weight:
                continue
            logps, values, _ = self.policy.read(part.sampled, settings.scored_at)
            policy = ppo_math.policy_loss(logps, part.logps, part.advantages, part.mask, settings.cliprange)
            value, clipped = ppo_math.value_loss(values, part.values, part.returns, part.mask, settings.cliprange_value)
            loss = policy["loss.policy"] + settings.vf_coef * value
            (loss * weight).backward()
            measured = {"loss": loss, "loss.policy": policy["loss.policy"], "loss.value": value, **policy, "value.clipfrac": clipped}
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
    make_folder(partial)
    trainer.policy.network.save_pretrained(str(partial))
    torch.save(trainer.policy.value_head.state_dict(), partial / "value_head.pt")
    torch.save(trainer.optimizer.state_dict(), partial / "optimizer.pt")
    torch.save(trainer.scheduler.state_dict(), partial / "scheduler.pt")
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    generator: Any = np.random.get_state()
    numpy = (generator[0], generator[1].tolist(), *generator[2:])  # plain numbers: what is loaded again is no pickle of other objects
    numbers = {"python": random.getstate(), "numpy": numpy, "torch": torch.get_rng_state(), "cuda": cuda}
    torch.save(numbers, partial / "rng_state.pth")
    state = {"global_step": step, "tokens": trainer.tokens, "kl_coef": trainer.kl_coef}
    write_text(partial / "trainer_state.json", json.dumps(state))
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
    state = read_json(checkpoint / "trainer_state.json")
    trainer.state.global_step, trainer.tokens, trainer.kl_coef = state["global_step"], state["tokens"], state["kl_coef"]
    numbers = torch.load(checkpoint / "rng_state.pth", weights_only=True)
    random.setstate(numbers["python"])
    np.random.set_state(numbers["numpy"])
    torch.set_rng_state(numbers["torch"])
    if numbers["cuda"]:
        torch.cuda.set_rng_state_all(numbers["cuda"])
