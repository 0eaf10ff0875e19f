"""W&B for a run that trains: on when the user's environment configures it. It never ends a run; where it fails, it prints a line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from stages.contracts.files import make_folder
from stages.contracts.layout import CHECKPOINTS
from stages.contracts.run_card import TrainCard

FOLDER = CHECKPOINTS.parent / "wandb"
FINISH_SECONDS = 60.0
"""Most that the end of a run waits for W&B."""


def configured() -> bool:
    """Whether the user asked for W&B."""
    if os.environ.get("WANDB_MODE") == "disabled" or os.environ.get("WANDB_DISABLED", "").lower() in ("1", "true", "yes"):
        return False
    return os.environ.get("WANDB_MODE") == "offline" or bool(os.environ.get("WANDB_API_KEY"))


class Tracked:
    """An open W&B run. Its first error is printed and ends the tracking, never the training."""

    def __init__(self, run: Any) -> None:
        self.run: Any = run

    def log(self, step: int, logs: Mapping[str, Any]) -> None:
        """One logged step, named as transformers names it. W&B's own process sends it, so this does not wait."""
        self._call("log", {f"train/{name}": value for name, value in logs.items()} | {"train/global_step": step})

    def finish(self, code: int) -> None:
        """End within FINISH_SECONDS; what is not sent by then stays on disk for `wandb sync`."""
        self._call("finish", code)

    def _call(self, method: str, argument: Any) -> None:
        try:
            if self.run is not None:
                getattr(self.run, method)(argument)
        except Exception as error:  # W&B raises many kinds
            print(f"W&B failed ({type(error).__name__}): training goes on without it", flush=True)
            self.run = None


@contextlib.contextmanager
def tracked(card: TrainCard[Any], name: str, attempt: str) -> Iterator[Tracked | None]:
    """A W&B run while training: group = condition, job type = experiment, config = the card, id = the attempt. None: not asked for, or
    W&B does not work here. When the server cannot be reached, the log is written to disk."""
    config = card.model_dump(mode="json")
    described = {"group": card.condition, "job_type": card.experiment, "name": name, "id": attempt, "config": config}
    run = None
    if configured():
        run = _started(described, None) or _started(described, "offline")
    if run is None:
        yield None
        return
    sink, code = Tracked(run), 1
    try:
        yield sink
        code = 0
    finally:
        sink.finish(code)


def _started(described: Mapping[str, Any], mode: Literal["offline"] | None) -> Any:
    make_folder(FOLDER)
    os.environ.setdefault("WANDB_SILENT", "true")
    try:
        import wandb

        seconds = float(os.environ.get("WANDB_INIT_TIMEOUT") or 30)
        limits = {"init_timeout": seconds, "login_timeout": seconds, "x_graphql_timeout_seconds": seconds, "x_graphql_retry_max": 1}
        settings = wandb.Settings(x_disable_stats=True, finish_timeout=FINISH_SECONDS, **limits)
        return wandb.init(project=os.environ.get("WANDB_PROJECT", "octavo"), dir=str(FOLDER), mode=mode, settings=settings, **described)
    except Exception as error:
        after = "training goes on without it" if mode else f"it logs to {FOLDER}; send it later with `wandb sync`"
        print(f"W&B did not start ({type(error).__name__}): {after}", flush=True)
        with contextlib.suppress(Exception):
            wandb.teardown()  # else what it remembers of the server would refuse the second try too
        return None
