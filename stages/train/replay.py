"""Train the first steps of a run again, and compare them with what is stored. No stage of a pipeline: it writes to a temporary folder.

The card, the data and the seed are those of the run, so its schedules are too; training ends after the steps that are asked for.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from stages.contracts.algorithms import ALGORITHMS, AnyTrainCard
from stages.contracts.artifact import now, read
from stages.contracts.attempt import StoppedBy
from stages.contracts.layout import RunFolder
from stages.contracts.replay import ROUNDING, Replay
from stages.contracts.stage import card_id
from stages.contracts.trajectory import of_last_attempts
from stages.train.attempts import begin
from stages.train.data import read_rows
from stages.train.environment import prepare
from stages.train.recorder import Cell, Journal
from stages.train.refusals import refusal
from stages.train.rewards.compose import sandbox
from stages.train.run import Stopping, Work, devices, gates

TIMED = "seconds"
"""In the name of every metric that a clock measures."""


class FirstSteps(Stopping):
    """Ends training after a number of steps."""

    def __init__(self, steps: int, journal: Journal) -> None:
        super().__init__(None, journal, 0)
        self._steps = steps

    def see(self, step: int, cells: Mapping[str, Cell]) -> bool:
        if step >= self._steps:
            self.stopped = StoppedBy(rule="replay", step=step, says="the steps that were asked for are done")
        return self.stopped is not None


def replay(run: RunFolder, steps: int) -> Replay:
    """Raises StageError S297 for a run without a history, and what its training raises."""
    if not run.card.is_file() or not run.history.is_file():
        raise refusal("S297", run=run.root.as_posix())
    card: Any = read(AnyTrainCard, run.card)
    prepare(card.device, card.gpus)
    os.environ["WANDB_MODE"] = "disabled"  # it is no attempt of the run
    identity, steps = card_id(card), min(steps, card.train.max_steps)
    with tempfile.TemporaryDirectory(prefix="octavo-replay-") as folder:
        journal, beside = Journal(Path(folder)), RunFolder(Path(folder) / run.name)
        beside.root.mkdir()
        started = begin(beside, identity, devices=devices(card), sandbox=sandbox(gates(card)), resumed_from=None)
        work = Work(beside, card, read_rows(card.data), journal, started, Path(folder) / "trainer", None, FirstSteps(steps, journal))
        importlib.import_module(ALGORITHMS[card.train.algorithm].stage).fit(work)
        again = pd.DataFrame(journal.history_rows()), pd.DataFrame(journal.completion_rows(), columns=["step", "text"])
    stored = pd.read_parquet(run.history), pd.read_parquet(run.completions, columns=["attempt", "step", "text"])
    place = {"commit": started.commit, "host": started.host, "devices": started.devices, "versions": started.versions}
    outcome = compare_histories(_latest(stored[0], steps), again[0]) | _compare_texts(_latest(stored[1], steps), again[1])
    return Replay(run=run.name, card_id=identity, at=now(), steps=steps, target_steps=card.train.max_steps, **place, **_verdict(**outcome))


def _latest(rows: pd.DataFrame, steps: int) -> pd.DataFrame:
    """Rows of the first steps, each step by the last attempt that made it."""
    return of_last_attempts(rows[rows["step"] <= steps])


def compare_histories(stored: pd.DataFrame, again: pd.DataFrame) -> dict[str, Any]:
    """`values`: (step, metric) of the first value that differs, or None; `largest`: the largest difference as a share of the larger value,
    infinite where one is missing, null or not finite and the other is not. Columns: step, metric, value, state."""
    columns = ["step", "metric", "value", "state"]
    logged = (frame[~frame["metric"].str.contains(TIMED)][columns] for frame in (stored, again))
    both = pd.merge(*logged, on=["step", "metric"], how="outer", suffixes=("", "_again")).sort_values(["step", "metric"])
    old, new = both["value"].astype(float), both["value_again"].astype(float)
    is_same = (both["state"] == both["state_again"]) & ((old == new) | (old.isna() & new.isna()))
    share = ((old - new).abs() / pd.concat([old.abs(), new.abs()], axis=1).max(axis=1)).where(~is_same, 0.0).fillna(float("inf"))
    first = both[~is_same].head(1)
    values = (int(first["step"].iloc[0]), str(first["metric"].iloc[0])) if len(first) else None
    return {"values": values, "largest": float(share.max()) if len(share) else 0.0}


def _compare_texts(stored: pd.DataFrame, again: pd.DataFrame) -> dict[str, Any]:
    """`texts`: the first step whose completions differ, or None."""
    by_step = [frame.groupby("step")["text"].agg(list).to_dict() for frame in (stored, again)]
    steps = sorted({*by_step[0], *by_step[1]})
    return {"texts": next((step for step in steps if by_step[0].get(step) != by_step[1].get(step)), None)}


def _verdict(values: tuple[int, str] | None, largest: float, texts: int | None) -> dict[str, Any]:
    """Completions come before what is logged of their step."""
    if values is None and texts is None:
        return {"outcome": "equal"}
    if texts is not None and (values is None or texts <= values[0]):
        values = texts, "completions"
    assert values is not None
    is_rounding = texts is None and largest <= ROUNDING
    shown = largest if largest != float("inf") else None
    return {"outcome": "rounding" if is_rounding else "different", "step": values[0], "metric": values[1], "largest": shown}
