"""W&B for a run that trains: on when the spec's `tracking` or the user's environment asks for it. It never ends a run; where it fails, it
prints a line."""

from __future__ import annotations

import contextlib
import netrc
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from stages.contracts.artifact import read
from stages.contracts.attempt import TRACKED
from stages.contracts.files import make_folder
from stages.contracts.history import PROMPT_COLUMN
from stages.contracts.layout import CHECKPOINTS, ExperimentFolder
from stages.contracts.run_card import TrainCard
from stages.contracts.tracking import NONE, Tracking, Wandb

FOLDER = CHECKPOINTS.parent / "wandb"
FINISH_SECONDS = 60.0
"""Most that the end of a run waits for W&B."""
MOST_COMPLETIONS = 64
"""Rows of one table of completions."""


def configured(wandb: Wandb | None = None) -> bool:
    """Whether the user asked for W&B, in the environment or by `tracking`."""
    if os.environ.get("WANDB_MODE") == "disabled" or os.environ.get("WANDB_DISABLED", "").lower() in ("1", "true", "yes"):
        return False
    return wandb is not None or os.environ.get("WANDB_MODE") == "offline" or bool(os.environ.get("WANDB_API_KEY"))


def tracking(experiment: ExperimentFolder) -> Tracking:
    """`tracking` of an experiment."""
    return read(Tracking, experiment.tracking) if experiment.tracking.exists() else NONE


class Tracked:
    """An open W&B run. Its first error is printed and ends the tracking, never the training."""

    def __init__(self, run: Any, completions_every: int) -> None:
        self.run: Any = run
        self.completions_every = completions_every

    @property
    def place(self) -> str | None:
        """Its address, or offline its folder; None where neither can be written into a ledger."""
        url, folder = getattr(self.run, "url", None), getattr(getattr(self.run, "settings", None), "sync_dir", None)
        place = url or (os.path.relpath(folder) if folder else "")
        return place if re.fullmatch(TRACKED, str(place)) else None

    def log(self, step: int, logs: Mapping[str, Any], cells: Mapping[str, Any]) -> None:
        """One logged step: `logs` named as transformers names them, metrics beside them as `octavo/<metric>`. W&B's own process sends it,
        so this does not wait."""
        own = {f"octavo/{name}": value for name, value in cells.items() if isinstance(value, float) and name not in logs}
        self._call("log", {f"train/{name}": value for name, value in logs.items()} | own | {"train/global_step": step})

    def shows_completions(self, step: int) -> bool:
        """Whether the completions of a step are shown: those of the first one, and then of every so many."""
        return self.run is not None and self.completions_every > 0 and (step - 1) % self.completions_every == 0

    def completions(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """A table of completions of a step, with their prompts; none where there are no rows."""
        shown = rows[:MOST_COMPLETIONS]
        columns = list(dict.fromkeys(name for row in shown for name in (PROMPT_COLUMN, *row)))
        if not shown:
            return
        try:
            import wandb

            table = wandb.Table(columns=columns, data=[[row.get(name) for name in columns] for row in shown])
        except Exception as error:
            self._failed(error)
        else:
            self._call("log", {"completions": table, "train/global_step": step})

    def finish(self, code: int) -> None:
        """End within FINISH_SECONDS; what is not sent by then stays on disk for `wandb sync`."""
        self._call("finish", code)

    def _call(self, method: str, argument: Any) -> None:
        try:
            if self.run is not None:
                getattr(self.run, method)(argument)
        except Exception as error:  # W&B raises many kinds
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        print(f"W&B failed ({type(error).__name__}): training goes on without it", flush=True)
        self.run = None


@contextlib.contextmanager
def tracked(card: TrainCard[Any], name: str, attempt: str, how: Tracking = NONE) -> Iterator[Tracked | None]:
    """A W&B run while training: group = experiment/condition, job type = experiment, config = the card, id = the attempt. None: not asked
    for, or W&B does not work here. Without a key, or when the server cannot be reached, the log is written to disk."""
    asked = how.wandb
    if not configured(asked):
        yield None
        return
    asked = asked or Wandb()
    described: dict[str, Any] = {"group": f"{card.experiment}/{card.condition}", "job_type": card.experiment, "name": name, "id": attempt}
    described |= {"config": card.model_dump(mode="json"), "tags": list(asked.tags), "notes": asked.notes or None}
    run = (_started(described, asked, None) if has_key() else None) or _started(described, asked, "offline")
    if run is None:
        yield None
        return
    sink, code = Tracked(run, asked.completions_every), 1
    try:
        yield sink
        code = 0
    finally:
        place = sink.place
        sink.finish(code)
        if place and not place.startswith("https:"):
            print(f"W&B: {name} is in {place}; send it with: wandb sync {place}", flush=True)


def has_key() -> bool:
    """Whether W&B can be asked: a key in the environment, or one that `wandb login` wrote."""
    if os.environ.get("WANDB_MODE") == "offline":
        return False
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC") or Path.home() / ".netrc").authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def project(asked: Wandb) -> str:
    """The spec's project, else that of the environment."""
    return asked.project or os.environ.get("WANDB_PROJECT") or "octavo"


def _started(described: Mapping[str, Any], asked: Wandb, mode: Literal["offline"] | None) -> Any:
    make_folder(FOLDER)
    os.environ.setdefault("WANDB_SILENT", "true")
    try:
        import wandb

        seconds = float(os.environ.get("WANDB_INIT_TIMEOUT") or 30)
        limits = {"init_timeout": seconds, "login_timeout": seconds, "x_graphql_timeout_seconds": seconds, "x_graphql_retry_max": 1}
        settings = wandb.Settings(x_disable_stats=True, finish_timeout=FINISH_SECONDS, **limits)
        run = wandb.init(project=project(asked), entity=asked.entity, dir=str(FOLDER), mode=mode, settings=settings, **described)
        run.define_metric("*", step_metric="train/global_step")
        return run
    except Exception as error:
        after = "training goes on without it" if mode else f"it logs to {FOLDER}; send it later with `wandb sync`"
        print(f"W&B did not start ({type(error).__name__}): {after}", flush=True)
        with contextlib.suppress(Exception):
            wandb.teardown()  # else what it remembers of the server would refuse the second try too
        return None
