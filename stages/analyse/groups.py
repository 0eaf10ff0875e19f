"""Groups of completions of one prompt: those without a signal, common texts, and reward and scores side by side."""

from __future__ import annotations

import pandas as pd

AGAINST = -0.5
"""Correlation of a score with the reward below which the reward pays for less of it."""
NO_COUNTS = pd.DataFrame({"k": [], "n": []}, index=pd.Index([], name="step", dtype=int), dtype=int)


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


def silent_groups(completions: pd.DataFrame) -> pd.DataFrame:
    """By step: groups of two completions or more without two different known rewards (k) of all such groups (n)."""
    if "group" not in completions or completions.empty:
        return NO_COUNTS
    groups = completions.groupby(["step", "group"])["reward"].agg(["min", "max", "size"])
    several = groups[groups["size"] > 1]  # one completion a prompt (PPO): there is nothing to compare
    return (~(several["max"] > several["min"])).groupby("step").agg(k="sum", n="size")


def same_texts(completions: pd.DataFrame) -> pd.DataFrame:
    """By step of two prompts or more: completions with the step's most common text (k) of all (n)."""
    if "text" not in completions:
        return NO_COUNTS
    steps = completions.groupby("step")
    most = completions.groupby(["step", "text"], observed=True).size().groupby("step").max()
    table = pd.DataFrame({"k": most, "n": steps.size()}).fillna(0).astype(int)
    return table[steps["group"].nunique() > 1]
