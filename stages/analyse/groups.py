"""Groups of completions of one prompt: the reward and the score of each gate side by side."""

from __future__ import annotations

import pandas as pd

AGAINST = -0.5
"""Correlation of a score with the reward below which the reward pays for less of it."""


def score_table(completions: pd.DataFrame) -> pd.DataFrame:
    """One row a group of a step: of the reward and of each gate's score the least, most, mean and count of known values. Empty where no
    scores of single completions were read. `completions`: by step."""
    scores = [name for name in completions if name.startswith("gate.") and name.endswith(".score")]
    if not scores or "group" not in completions:
        return pd.DataFrame()
    return completions.groupby(["step", "group"])[["reward", *scores]].agg(["min", "max", "mean", "count"])


def paid_to_fall(first: pd.DataFrame) -> frozenset[str]:
    """Scores that the reward pays less for, as an inverted reward does: groups where they are high earn little. `first`: of the first
    window."""
    if first.empty:
        return frozenset()
    means = first.xs("mean", axis=1, level=1)
    against = means.drop(columns="reward").corrwith(means["reward"]) < AGAINST
    return frozenset(against.index[against])
