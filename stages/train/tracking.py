"""Weights & Biases, when it is configured: WANDB_MODE=offline or an API key. Never required, never waited for
long; a failure only prints a line."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stages.contracts.artifact import Artifact
from stages.contracts.layout import CHECKPOINTS

FINISH_SECONDS = 60.0
"""Most that the end of a run waits for W&B."""


def _seconds(text: str) -> float:
    """A time limit of the environment; 30 s where it is none."""
    try:
        return found if 0 < (found := float(text)) < 86_400 else 30.0
    except ValueError:
        return 30.0


_INIT_SECONDS = _seconds(os.environ.get("WANDB_INIT_TIMEOUT", ""))


def configured() -> bool:
    """Whether the user asked for W&B."""
    if os.environ.get("WANDB_MODE") == "disabled" or os.environ.get("WANDB_DISABLED", "").lower() in ("1", "true", "yes"):
        return False
    return os.environ.get("WANDB_MODE") == "offline" or bool(os.environ.get("WANDB_API_KEY"))


class Tracked:
    """An open W&B run. What goes wrong in it is said once and costs the training nothing."""

    def __init__(self, run: Any) -> None:
        self.run: Any = run

    def log(self, step: int, logs: Mapping[str, Any]) -> None:
        """One logged step, named as transformers names it. W&B's own process sends it; nobody waits."""
        self._try(lambda: self.run.log({f"train/{name}": value for name, value in logs.items()} | {"train/global_step": step}))

    def finish(self, code: int) -> None:
        """Ends with the settings' limit on how long what is left may take; the rest stays on disk for `wandb sync`."""
        self._try(lambda: self.run.finish(exit_code=code))

    def _try(self, what: Callable[[], Any]) -> None:
        if self.run is None:
            return
        try:
            what()
        except Exception as error:  # W&B raises many kinds; none of them may cost a run
            print(f"W&B failed ({type(error).__name__}): training goes on without it", flush=True)
            self.run = None


@contextlib.contextmanager
def tracked(card: Artifact, *, experiment: str, group: str, name: str, attempt: str) -> Iterator[Tracked | None]:
    """A W&B run while training: group = condition, job type = experiment, config = the card, id = the attempt. None: not asked for, or
    W&B does not work here. A server that cannot be reached is no reason to lose the log: it is then written to disk."""
    if not configured():
        yield None
        return
    if importlib.util.find_spec("wandb") is None:
        print("W&B is configured but not installed: training goes on without it (pip install 'octavo[wandb]')", flush=True)
        yield None
        return
    import wandb

    folder = CHECKPOINTS.parent / "wandb"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("WANDB_SILENT", "true")
    limits = {
        "init_timeout": _INIT_SECONDS,
        "login_timeout": _INIT_SECONDS,
        "finish_timeout": FINISH_SECONDS,
        "x_graphql_retry_max": 1,
        "x_graphql_timeout_seconds": _INIT_SECONDS,
    }
    known = {key: limit for key, limit in limits.items() if key in wandb.Settings.model_fields}
    run: Any = None
    for mode in (None, "offline"):
        try:
            run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "octavo"),
                group=group,
                job_type=experiment,
                name=name,
                id=attempt,
                config=card.model_dump(mode="json"),
                dir=str(folder),
                mode=mode,
                settings=wandb.Settings(x_disable_stats=True, **known),
            )
            break
        except Exception as error:
            after = f"it logs to {folder}; send it later with `wandb sync`" if mode is None else "training goes on without it"
            print(f"W&B did not start ({type(error).__name__}): {after}", flush=True)
            wandb.teardown()  # else what it knows of the server would refuse the second try too
    if run is None:
        yield None
        return
    open_, code = Tracked(run), 1
    try:
        yield open_
        code = 0
    finally:
        open_.finish(code)
