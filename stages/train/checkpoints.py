"""Which checkpoint a new attempt may go on from. An incomplete one would silently restart the optimizer, so it is not used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path


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


def _step(path: Path, needed: Sequence[str]) -> int | None:
    if any(not (path / name).is_file() or (path / name).stat().st_size == 0 for name in needed):
        return None
    try:
        return int(json.loads((path / "trainer_state.json").read_text())["global_step"])
    except (json.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


def copy_adapter(checkpoint: Path, adapter: Path) -> None:
    """The adapter's own files of a checkpoint, without optimizer and trainer state."""
    adapter.mkdir(parents=True, exist_ok=True)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy2(checkpoint / name, adapter / name)
