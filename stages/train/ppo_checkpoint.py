"""Checkpoints of PPO: everything that the next step depends on, whole or not at all."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import torch
from peft import set_peft_model_state_dict
from safetensors.torch import load_file

from stages.train.ppo_trainer import PpoTrainer

KEPT = 2


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
    for old in sorted(output.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))[:-KEPT]:
        shutil.rmtree(old)


def restore(trainer: PpoTrainer, checkpoint: Path) -> None:
    """Put everything back as `save` found it."""
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
