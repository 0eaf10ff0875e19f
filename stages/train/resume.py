"""What an attempt does differently after the one before it, from the ledger and the policy alone, and from which checkpoint it goes on.

An incomplete checkpoint would silently restart the optimizer, and a run that goes on with another library is a mixture.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from stages.contracts.artifact import canonical_json
from stages.contracts.attempt import Attempt, Changed
from stages.contracts.files import make_folder, read_bytes, read_json, write_text
from stages.contracts.retries import Retries
from stages.contracts.run_card import TrainCard
from stages.contracts.training import TrainSettings
from stages.train.attempts import Stopped
from stages.train.environment import versions
from stages.train.refusals import refusal

S = TypeVar("S", bound=TrainSettings)
MATTER = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes")
"""Libraries that make numbers."""
MANIFEST = "manifest.json"
"""Beside the checkpoints: what made them."""
_MANIFEST = TypeAdapter(dict[str, str])
RETRIED = ("out_of_memory", "nonfinite", "verifier")
"""Failures after which the same call tries again, when the policy has a rule for them."""
REFERENCE = "reference.safetensors"
"""The reference model of a run that moves it."""
WEIGHTS = {"lora": ("adapter_model.safetensors", "adapter_config.json"), "full": ("model.safetensors", "config.json")}


def change(attempts: Sequence[Attempt], policy: Retries, size: int | None) -> Changed | None:
    """What the attempt after these does differently; None for nothing. `attempts` are those under the run's card, `size` is the card's
    micro-batch in completions, None where the algorithm has none. A halved micro-batch stays halved."""
    if not attempts or attempts[-1].state == "finished":
        return None
    failure, kept = _failure(attempts[-1]), _microbatch(attempts[-1])
    rule = getattr(policy, failure, None)
    update = rule.model_dump() if rule else {}
    if "microbatch" in update:  # the rule says `halve`
        update = {"microbatch": _half(kept or size) or kept}
    if not any(update.values()) and not kept:
        return None
    return Changed(after=attempts[-1].started.attempt, failure=failure, microbatch=kept).model_copy(update=update)


def why_not_again(attempts: Sequence[Attempt], policy: Retries, size: int | None, tried: int) -> str | None:
    """Why the run is not tried again by itself after its latest attempt; None when it is, and an empty text when the policy says nothing
    about it. `tried`: attempts in this call."""
    last = attempts[-1]
    failure = _failure(last)
    if failure not in RETRIED or not getattr(policy, failure):
        return ""
    if tried >= policy.attempts:
        return f"{tried} attempts in a row failed, and `retries.attempts` is {policy.attempts}"
    batch = _microbatch(last) or size
    if failure == "out_of_memory" and _half(batch) is None:
        return f"a micro-batch of {batch} cannot be halved"
    if len(attempts) > 1 and _signature(attempts[-2]) == _signature(last):
        return f"two attempts failed alike ({failure} after step {last.ended.last_step if last.ended else 0}), changed in the same way"
    return None


def _failure(attempt: Attempt) -> str:
    """The class of the ledger; a start without an end, or one ended by a signal, is a preemption."""
    failure = attempt.ended.failure if attempt.ended else "interrupted"
    return "preempted" if failure == "interrupted" else failure or ""


def _microbatch(attempt: Attempt) -> int | None:
    return attempt.started.changed.microbatch if attempt.started.changed else None


def _half(size: int | None) -> int | None:
    return size // 2 if size is not None and size > 1 and size % 2 == 0 else None


def _signature(attempt: Attempt) -> tuple[object, ...]:
    """Two attempts failed alike when these are equal."""
    changed = attempt.started.changed
    return _failure(attempt), attempt.ended and attempt.ended.last_step, changed and changed.model_dump(exclude={"after", "failure"})


def required_files(trainer_files: Sequence[str], card: TrainCard[Any]) -> tuple[str, ...]:
    """Files of a complete checkpoint: those of its trainer, and the weights. Each of several ranks keeps its own random numbers."""
    files = (*trainer_files, *WEIGHTS[card.model.adapter.kind])
    if getattr(card.train, "sync_ref_model", False):
        files = (*files, REFERENCE)
    if card.gpus == 1:
        return files
    return (*(name for name in files if name != "rng_state.pth"), *(f"rng_state_{number}.pth" for number in range(card.gpus)))


def begins_at(folder: Path, needed: Sequence[str], before: Sequence[Attempt], changed: Changed | None) -> tuple[Path, int] | None:
    """The checkpoint to go on from and its step. After a failure with non-finite numbers only one with a finite adapter and optimizer; and
    under a policy of retries not the one from which that attempt finished no step, since finite numbers may still be no good. Later
    checkpoints are removed. Raises StageError S250 when the checkpoint was made by other libraries."""
    last = before[-1] if before else None
    has_failed = last is not None and last.ended is not None and last.ended.failure == "nonfinite"
    stuck = None
    if last and last.ended and changed and changed.resume == "last_finite_checkpoint":
        start = last.started.resumed_from
        stuck = start if start is not None and last.ended.last_step <= start else None
    while (checkpoint := newest(folder, needed)) is not None:
        if not has_failed or ((stuck is None or checkpoint[1] < stuck) and _is_finite(checkpoint[0])):
            require(folder.parent)
            return checkpoint
        shutil.rmtree(checkpoint[0])
    return None


def made_now() -> dict[str, str]:
    """What makes checkpoints, beside the card, whose id names their folder: the libraries."""
    return {library: version for library, version in versions().items() if library in MATTER}


def keep(folder: Path) -> None:
    """Write the manifest before the first checkpoint."""
    if not (folder / MANIFEST).exists():
        write_text(folder / MANIFEST, canonical_json(made_now()))


def require(folder: Path) -> None:
    """Raises StageError S250 when the checkpoints in the folder were made by other libraries."""
    now = made_now()
    try:
        then = _MANIFEST.validate_json(read_bytes(folder / MANIFEST))
    except (OSError, ValueError):
        then = {}
    differing = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    if not differing:
        return
    differences = "; ".join(f"{name}: {then.get(name, 'none')} then, {now.get(name, 'none')} now" for name in differing)
    install = " ".join(f"{name}=={then[name]}" for name in differing if name in then)
    raise refusal(
        "S250",
        folder=folder,
        differences=differences if then else "nothing says what made them",
        install=f"pip install {install}   (goes on), or " if install else "",
        fix=f"rm -r {folder} && dvc repro   (from the start)",
    )


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


def _step(path: Path, needed: Sequence[str]) -> int | None:
    if any(not (path / name).is_file() or (path / name).stat().st_size == 0 for name in needed):
        return None
    try:
        return int(read_json(path / "trainer_state.json")["global_step"])
    except (KeyError, TypeError, ValueError):
        return None


def _is_finite(checkpoint: Path) -> bool:
    """Whether every number of the checkpoint's adapter and optimizer is finite."""
    import torch
    from safetensors.torch import load_file

    states: list[Any] = [load_file(path) for path in checkpoint.glob("*model.safetensors")]
    if (checkpoint / "optimizer.pt").exists():
        states.append(torch.load(checkpoint / "optimizer.pt", map_location="cpu", weights_only=True))
    leaves = torch.utils._pytree.tree_leaves(states)
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point())


def check_weights(checkpoint: Path, has_gradients: bool) -> None:
    """Raises Stopped when what was trained is no result: a weight that is not finite, or none that changed although the run `has_gradients`
    that are not zero. LoRA begins with the second of its two factors at zero, where the adapter does nothing."""
    import torch
    from safetensors.torch import load_file

    (path,) = (checkpoint / files[0] for files in WEIGHTS.values() if (checkpoint / files[0]).exists())
    learnt = load_file(path)
    broken = next((name for name, weight in learnt.items() if not torch.isfinite(weight).all()), None)
    if broken is not None:
        raise Stopped("nonfinite", f"the {'adapter' if 'adapter' in path.name else 'model'} holds non-finite weights, first in {broken}")
    second = [weight for name, weight in learnt.items() if "lora_B" in name]
    if has_gradients and second and not any(bool(weight.any()) for weight in second):
        raise Stopped("bug", "gradients were not zero and the adapter is as it was at its start: it is not connected")


def with_microbatch(card: TrainCard[S], changed: Changed | None) -> TrainCard[S]:
    """The card as this attempt trains it: another micro-batch, and more micro-steps, so that the generation batch is the same."""
    if changed is None or changed.microbatch is None:
        return card
    settings: Any = card.train
    factor = getattr(settings, settings.microbatch_key) // changed.microbatch
    update = {settings.microbatch_key: changed.microbatch, "gradient_accumulation_steps": settings.gradient_accumulation_steps * factor}
    if getattr(settings, "steps_per_generation", None):
        update["steps_per_generation"] = settings.steps_per_generation * factor
    return card.model_copy(update={"train": settings.model_copy(update=update)})


def with_batch_size(checkpoint: Path, size: int) -> None:
    """Write another micro-batch into a checkpoint: transformers goes on with the one that it finds there, whatever the settings say, and
    the generation batch would grow."""
    path = checkpoint / "trainer_state.json"
    state = read_json(path)
    if state.get("train_batch_size") not in (None, size):
        write_text(path, json.dumps({**state, "train_batch_size": size}, indent=2) + "\n")


def copy_adapter(checkpoint: Path, adapter: Path) -> None:
    """Copy what was trained from a checkpoint, without optimizer and trainer state: the files of an adapter, or those of a whole model."""
    make_folder(adapter)
    for name in (*WEIGHTS["lora"], *WEIGHTS["full"], "generation_config.json"):
        if (checkpoint / name).is_file():
            shutil.copy2(checkpoint / name, adapter / name)
