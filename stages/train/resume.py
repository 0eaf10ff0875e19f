"""What an attempt goes on from: the newest complete checkpoint of the same card, seed, device and libraries.

An incomplete checkpoint would silently restart the optimizer, and a run that goes on under another seed, card or library is a mixture.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from stages.contracts.artifact import Artifact, ArtifactError, read, write, write_text
from stages.contracts.attempt import Attempt, Changed, FailureClass
from stages.contracts.diagnostic import StageError
from stages.contracts.run_card import TrainCard
from stages.contracts.training import TrainSettings
from stages.train import retries

S = TypeVar("S", bound=TrainSettings)
MATTER = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes")
"""Libraries that make numbers."""
MANIFEST = "manifest.json"
WEIGHTS = {"lora": ("adapter_model.safetensors", "adapter_config.json"), "full": ("model.safetensors", "config.json")}


class Manifest(Artifact):
    """`manifest.json` beside the checkpoints: what made them."""

    SCHEMA: ClassVar[str] = "octavo.checkpoints/1"

    run: str
    """`<experiment>/<run>`."""
    card_id: str
    seed: int
    device: str
    versions: dict[str, str]
    """Of the libraries in MATTER."""


def keep(folder: Path, manifest: Manifest) -> None:
    """Write the manifest before the first checkpoint."""
    if not (folder / MANIFEST).exists():
        write(folder / MANIFEST, manifest)


def require(folder: Path, now: Manifest) -> None:
    """Raises StageError S250 when the checkpoints in the folder were made by anything else."""
    anew = f"rm -r {folder} && dvc repro"
    try:
        before = read(Manifest, folder / MANIFEST)
    except ArtifactError:
        raise _refused(folder, "nothing says what made them", anew) from None
    then, today = (
        {"run": each.run, "card": each.card_id, "seed": each.seed, "device": each.device, **each.versions} for each in (before, now)
    )
    differing = [name for name in [*then, *sorted(today.keys() - then.keys())] if then.get(name) != today.get(name)]
    if not differing:
        return
    fix = f"{anew}   (from the start)"
    if all(name in before.versions for name in differing):
        fix = f"pip install {' '.join(f'{name}=={then[name]}' for name in differing)}   (goes on), or {fix}"
    what = "; ".join(f"{name}: {then.get(name, 'none')} then, {today.get(name, 'none')} now" for name in differing)
    raise _refused(folder, what, fix)


def _refused(folder: Path, what: str, fix: str) -> StageError:
    return StageError(
        "S250",
        f"the checkpoints in {folder} are not those of this run here and now: {what}",
        why="a run that goes on under another seed, card or library is a mixture of two",
        fix=fix,
    )


def required_files(trainer_files: Sequence[str], card: TrainCard[Any]) -> tuple[str, ...]:
    """Files of a complete checkpoint: those of its trainer, and the weights. Each of several ranks keeps its own random numbers."""
    files = (*trainer_files, *WEIGHTS[card.model.adapter.kind])
    if card.gpus == 1:
        return files
    return (*(name for name in files if name != "rng_state.pth"), *(f"rng_state_{number}.pth" for number in range(card.gpus)))


def begins_at(folder: Path, needed: Sequence[str], before: Sequence[Attempt], changed: Changed | None) -> tuple[Path, int] | None:
    """The checkpoint to go on from and its step. After a failure with non-finite numbers only a checkpoint with finite ones, whatever the
    policy of retries says."""
    last = before[-1].ended if before else None
    if last is None or last.failure != "nonfinite":
        return newest(folder, needed)
    return newest_finite(folder, needed, retries.stuck(before) if changed and changed.resume == "last_finite_checkpoint" else None)


def newest(folder: Path, needed: Sequence[str]) -> tuple[Path, int] | None:
    """(folder, step) of the newest checkpoint that holds all `needed` files; incomplete ones are removed."""
    complete = []
    for path in folder.glob("checkpoint-*"):
        step = _step(path, needed)
        if step is None:
            shutil.rmtree(path)
        else:
            complete.append((step, path))
    return max(complete)[::-1] if complete else None


def newest_finite(folder: Path, needed: Sequence[str], below: int | None = None) -> tuple[Path, int] | None:
    """As `newest`, with adapter and optimizer finite, of a step below `below`; later checkpoints are removed."""
    while (checkpoint := newest(folder, needed)) is not None:
        if (below is None or checkpoint[1] < below) and _finite(checkpoint[0]):
            return checkpoint
        shutil.rmtree(checkpoint[0])
    return None


def _step(path: Path, needed: Sequence[str]) -> int | None:
    if any(not (path / name).is_file() or (path / name).stat().st_size == 0 for name in needed):
        return None
    try:
        return int(json.loads((path / "trainer_state.json").read_text())["global_step"])
    except (json.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


def _finite(checkpoint: Path) -> bool:
    """Whether every number of the checkpoint's adapter and optimizer is finite."""
    import torch
    from safetensors.torch import load_file

    states: list[Any] = [load_file(path) for kind in WEIGHTS if (path := checkpoint / WEIGHTS[kind][0]).exists()]
    if (checkpoint / "optimizer.pt").exists():
        states.append(torch.load(checkpoint / "optimizer.pt", map_location="cpu", weights_only=True))
    leaves = torch.utils._pytree.tree_leaves(states)
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point())


def fault(checkpoint: Path, has_gradients: bool) -> tuple[FailureClass, str] | None:
    """Why the adapter of a checkpoint is no result: a weight that is not finite, or none that changed although the run `has_gradients`
    that are not zero. LoRA begins with the second of its two factors at zero, where the adapter does nothing."""
    import torch
    from safetensors.torch import load_file

    kind = next(kind for kind, files in WEIGHTS.items() if (checkpoint / files[0]).exists())
    learnt = load_file(checkpoint / WEIGHTS[kind][0])
    broken = next((name for name, weight in learnt.items() if not torch.isfinite(weight).all()), None)
    if broken is not None:
        return "nonfinite", f"the {'adapter' if kind == 'lora' else 'model'} holds non-finite weights, first in {broken}"
    second = [weight for name, weight in learnt.items() if "lora_B" in name]
    if has_gradients and second and not any(bool(weight.any()) for weight in second):
        return "bug", "gradients were not zero and the adapter is as it was at its start: it is not connected"
    return None


def with_microbatch(card: TrainCard[S], changed: Changed | None) -> TrainCard[S]:
    """The card as this attempt trains it: another micro-batch, and more micro-steps, so that the generation batch is the same."""
    if changed is None or changed.microbatch is None:
        return card
    settings: Any = card.train
    factor = getattr(settings, settings.microbatch_key) // changed.microbatch
    update = {settings.microbatch_key: changed.microbatch, "gradient_accumulation_steps": settings.gradient_accumulation_steps * factor}
    return card.model_copy(update={"train": settings.model_copy(update=update)})


def with_batch_size(checkpoint: Path, size: int) -> None:
    """Write another micro-batch into a checkpoint: transformers goes on with the one that it finds there, whatever the settings say, and
    the generation batch would grow."""
    path = checkpoint / "trainer_state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    if state.get("train_batch_size") not in (None, size):
        write_text(path, json.dumps({**state, "train_batch_size": size}, indent=2) + "\n")


def copy_adapter(checkpoint: Path, adapter: Path) -> None:
    """Copy what was trained from a checkpoint, without optimizer and trainer state: the files of an adapter, or those of a whole model."""
    adapter.mkdir(parents=True, exist_ok=True)
    for name in (*WEIGHTS["lora"], *WEIGHTS["full"], "generation_config.json"):
        if (checkpoint / name).is_file():
            shutil.copy2(checkpoint / name, adapter / name)
