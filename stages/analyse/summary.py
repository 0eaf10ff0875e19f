"""Tables -> Series: what detectors see of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stages.analyse.tables import Column, History
from stages.contracts.analysis_card import ConditionCard, RunRef
from stages.contracts.observed import Observed, Resume
from stages.contracts.series import Cell, CompletionsSummary, NonFinite, RewardCount, Share, classify

_EXAMPLES = 3
_EXAMPLE_CHARS = 400
_NOTABLE = 0.05
"""Texts are kept for reward values that hold at least this share of a run's completions."""


def series(run: RunRef, condition: ConditionCard, history: History, completions: pd.DataFrame, **around: Any) -> Observed:
    """Everything that was measured on a run, as plain data. `around`: fields of Observed that lie outside the run's own tables."""
    return Observed(
        run=run.name,
        condition=run.condition,
        role=condition.role,
        target_steps=run.target_steps,
        stride=history.stride,
        metrics=_Cells(history.columns),
        completions=None if completions.empty else completions_summary(completions),
        resumes=_resumes(history),
        repeated=history.repeated,
        same_text=() if completions.empty else same_text(completions),
        classes={name: _class(column) for name, column in history.columns.items()},
        **around,
    )


class _Cells(Mapping[str, Sequence[Cell]]):
    """Columns as plain cells, made when a detector first asks: of forty logged metrics it asks for ten."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns
        self._made: dict[str, tuple[Cell, ...]] = {}

    def __getitem__(self, name: str) -> Sequence[Cell]:
        if name not in self._made:
            self._made[name] = self._columns[name].cells()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _class(column: Column) -> NonFinite:
    bad = column.states == "nonfinite"
    if not bad.any():
        return NonFinite("none", 0, len(column.steps), None, None, None)
    return classify(column.steps.tolist(), column.steps[bad].tolist())


def _resumes(history: History) -> tuple[Resume, ...]:
    found = []
    logged = np.unique(np.concatenate([column.steps for column in history.columns.values()])) if history.boundaries else np.empty(0)
    for boundary in history.boundaries:
        earlier = logged[logged < boundary]
        again = max((lap.last - lap.first + 1 for lap in history.overlaps if lap.first == boundary), default=0)
        found.append(Resume(boundary, int(earlier[-1]) if len(earlier) else 0, again))
    return tuple(found)


def same_text(frame: pd.DataFrame) -> tuple[Share, ...]:
    """Per step with two prompts or more: completions with the step's most common text (k) of all (n)."""
    sizes = frame.groupby("step", sort=True)["group"].agg(["nunique", "size"])
    sizes["most"] = frame.groupby(["step", "text"], sort=False).size().groupby(level="step").max()
    return tuple(Share(int(step), int(k), int(n)) for step, prompts, n, k in sizes.itertuples() if prompts > 1)


def completions_summary(frame: pd.DataFrame) -> CompletionsSummary:
    """Counts per step of completions with the columns step, group, reward, truncated and text."""
    known = frame["reward"].notna()
    rewards = frame.loc[known, "reward"].round(9)  # equal rewards written by different arithmetic are one value
    groups = frame.groupby(["step", "group"], sort=True)["reward"].agg(["min", "max", "size"])
    groups = groups[groups["size"] > 1]  # one completion a prompt (PPO): there is nothing to compare
    silent = ~((groups["max"] - groups["min"]) > 0)  # also true for groups with fewer than two known rewards
    per_step = silent.groupby(level="step").agg(["sum", "size"])
    cut = frame.groupby("step", sort=True)["truncated"].agg(["sum", "size"])
    counted = pd.DataFrame({"step": frame.loc[known, "step"], "reward": rewards})
    sizes = counted.groupby(["step", "reward"], sort=True).size().reset_index(name="completions")
    held = zip(*(sizes[column].tolist() for column in ("step", "reward", "completions")), strict=True)
    totals = rewards.value_counts()
    notable = sorted(totals.index[totals >= _NOTABLE * len(frame)])
    return CompletionsSummary(
        completions=len(frame),
        unknown=int((~known).sum()),
        zero_signal=tuple(Share(int(step), int(k), int(n)) for step, k, n in per_step.itertuples()),
        truncated=tuple(Share(int(step), int(k), int(n)) for step, k, n in cut.itertuples()),
        rewards=tuple(RewardCount(int(step), float(value), int(n)) for step, value, n in held),
        examples={float(value): _texts(frame.loc[rewards.index[rewards == value], "text"]) for value in notable},
    )


def _texts(texts: pd.Series) -> tuple[str, ...]:
    latest = texts.drop_duplicates(keep="last").tail(_EXAMPLES)
    return tuple(str(text)[:_EXAMPLE_CHARS] for text in latest)
