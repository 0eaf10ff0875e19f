"""Which checkpoint a new attempt may go on from. An incomplete one would silently restart the optimizer, so it is not used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from stages.contracts.artifact import write_text
from stages.contracts.attempt import FailureClass

WEIGHTS = {"lora": ("adapter_model.safetensors", "adapter_config.json"), "full": ("model.safetensors", "config.json")}


def weights(kind: str) -> tuple[str, ...]:
    """Files of a checkpoint that hold what an adapter of this kind has learnt, the weights first."""
    return WEIGHTS[kind]


def newest(folder: Path, needed: Sequence[str]) -> tuple[Path, int] | None:
    """(folder, step) of the newest checkpoint under the trainer's output folder that holds all `needed` files; others are removed."""
    found = []
    for path in folder.glob("checkpoint-*"):
        step = _step(path, needed)
        if step is None:
            shutil.rmtree(path)
        else:
            found.append((step, path))
    if not found:
        return None
    step, path = max(found)
    return path, step


def newest_finite(folder: Path, needed: Sequence[str], below: int | None = None) -> tuple[Path, int] | None:
    """As `newest`, with adapter and optimizer finite, of a step below `below`; later checkpoints are removed."""
    while (found := newest(folder, needed)) is not None and ((below is not None and found[1] >= below) or not _finite(found[0])):
        shutil.rmtree(found[0])
    return found


def _finite(checkpoint: Path) -> bool:
    """Whether every number of the checkpoint's adapter and optimizer is finite."""
    import torch
    from safetensors.torch import load_file

    states: list[object] = [load_file(path) for kind in WEIGHTS if (path := checkpoint / WEIGHTS[kind][0]).exists()]
    if (checkpoint / "optimizer.pt").exists():
        states.append(torch.load(checkpoint / "optimizer.pt", map_location="cpu", weights_only=True))
    while states:
        state = states.pop()
        if isinstance(state, dict):
            states += state.values()
        elif isinstance(state, list | tuple):
            states += state
        elif isinstance(state, torch.Tensor) and state.is_floating_point() and not torch.isfinite(state).all():
            return False
    return True


def fault(checkpoint: Path, moved: bool) -> tuple[FailureClass, str] | None:
    """Why the adapter of a checkpoint is no result: a weight that is not finite, or none that changed. `moved`: whether any gradient was
    not zero. LoRA begins with the second of its two factors at zero, where the adapter does nothing."""
    import torch
    from safetensors.torch import load_file

    kind = next(kind for kind, files in WEIGHTS.items() if (checkpoint / files[0]).exists())
    found = load_file(checkpoint / WEIGHTS[kind][0])
    broken = next((name for name, weight in found.items() if not torch.isfinite(weight).all()), None)
    if broken is not None:
        return "nonfinite", f"the {'adapter' if kind == 'lora' else 'model'} holds non-finite weights, first in {broken}"
    second = [weight for name, weight in found.items() if "lora_B" in name]
    if moved and second and not any(bool(weight.any()) for weight in second):
        return "bug", "gradients were not zero and the adapter is as it was at its start: it is not connected"
    return None


def of_ranks(needed: Sequence[str], gpus: int) -> tuple[str, ...]:
    """Files of a checkpoint of a run on so many devices: each of several ranks keeps random numbers of its own."""
    if gpus == 1:
        return tuple(needed)
    return (*(name for name in needed if name != "rng_state.pth"), *(f"rng_state_{number}.pth" for number in range(gpus)))


def with_batch_size(checkpoint: Path, size: int) -> None:
    """Write another size of micro-batch into a checkpoint: transformers goes on with the one that it finds there, whatever the settings
    say, and the generation batch would grow."""
    path = checkpoint / "trainer_state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    if state.get("train_batch_size") not in (None, size):
        write_text(path, json.dumps({**state, "train_batch_size": size}, indent=2) + "\n")


def _step(path: Path, needed: Sequence[str]) -> int | None:
    if any(not (path / name).is_file() or (path / name).stat().st_size == 0 for name in needed):
        return None
    try:
        return int(json.loads((path / "trainer_state.json").read_text())["global_step"])
    except (json.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


def copy_adapter(checkpoint: Path, adapter: Path) -> None:
    """What was trained, of a checkpoint, without optimizer and trainer state: the files of an adapter, or those of a whole model."""
    adapter.mkdir(parents=True, exist_ok=True)
    for name in (*WEIGHTS["lora"], *WEIGHTS["full"], "generation_config.json"):
        if (checkpoint / name).is_file():
            shutil.copy2(checkpoint / name, adapter / name)
