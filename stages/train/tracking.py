"""Weights & Biases, when it is configured: WANDB_MODE=offline or an API key. Never required; a failure only prints a line."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator

from stages.contracts.artifact import Artifact
from stages.contracts.layout import CHECKPOINTS


def configured() -> bool:
    """Whether the user asked for W&B."""
    if os.environ.get("WANDB_MODE") == "disabled" or os.environ.get("WANDB_DISABLED", "").lower() in ("1", "true", "yes"):
        return False
    return os.environ.get("WANDB_MODE") == "offline" or bool(os.environ.get("WANDB_API_KEY"))


@contextlib.contextmanager
def tracked(card: Artifact, *, experiment: str, group: str, name: str, attempt: str) -> Iterator[str]:
    """TRL's `report_to` value while a W&B run is open: group = condition, config = the card, id = the attempt."""
    if not configured():
        yield "none"
        return
    if importlib.util.find_spec("wandb") is None:
        print("W&B is configured but not installed: training goes on without it (pip install 'octavo[wandb]')", flush=True)
        yield "none"
        return
    import wandb

    folder = CHECKPOINTS.parent / "wandb"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("WANDB_SILENT", "true")
    try:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "octavo"),
            group=group,
            job_type=experiment,
            name=name,
            id=attempt,
            config=card.model_dump(mode="json"),
            dir=str(folder),
            settings=wandb.Settings(init_timeout=30, x_disable_stats=True),
        )
    except Exception as error:  # W&B raises many kinds; none of them may cost a run
        print(f"W&B did not start ({type(error).__name__}): training goes on without it", flush=True)
        yield "none"
        return
    code = 1
    try:
        yield "wandb"
        code = 0
    finally:
        run.finish(exit_code=code)
