"""Tables -> Series: what detectors see of a run."""

from __future__ import annotations

import pandas as pd

from stages.analyse.tables import History
from stages.contracts.analysis_card import ConditionCard, RunRef
from stages.contracts.series import CompletionsSummary, RewardCount, Series, Share

_EXAMPLES = 3
_EXAMPLE_CHARS = 400
_NOTABLE = 0.05
"""Texts are kept for reward values that hold at least this share of a run's completions."""


def series(run: RunRef, condition: ConditionCard, history: History, completions: pd.DataFrame) -> Series:
    """Everything that was measured on a run, as plain data."""
    return Series(
        run=run.name,
        condition=run.condition,
        role=condition.role,
        target_steps=run.target_steps,
        stride=history.stride,
        metrics={name: column.cells() for name, column in history.columns.items()},
        completions=None if completions.empty else completions_summary(completions),
    )


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
