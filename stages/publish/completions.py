"""The section of rewards: gates and their part in a reward, what the models write most (experiment) and by step (page of a run)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd
import pyarrow.parquet as pq

from stages.contracts.analysis_card import ConditionCard
from stages.contracts.history import gate_columns
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles

TEXTS = 3
STEPS, OF_A_STEP, LETTERS, ALL_LETTERS = 6, 24, 400, 60_000
"""Of a run's page: steps, completions a step, letters a completion and letters in all."""


class Browser(NamedTuple):
    rows: pd.DataFrame
    """Columns step, prompt, reward, label, tone, text."""
    steps: list[int]
    total: int
    """Completions that the run has."""
    path: str


def examples(experiment: ExperimentFiles) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """(condition, run, steps in words, completions): the final window of each condition's first included run (or first run) that has
    completions."""
    share = experiment.conclude.windows.final if experiment.conclude else 0.1
    for condition in experiment.card.conditions:
        runs = sorted(experiment.of_condition(condition.name), key=lambda run: not run.included)
        run = next((run for run in runs if run.folder.completions.exists()), None)
        steps = _steps(run) if run else pd.Series()
        if run is None or steps.empty:
            continue
        last = int(steps.max())
        first = max(int(steps.min()), last - max(1, round(share * run.ref.target_steps)) + 1)
        window = f"steps {first}–{last}" if first < last else f"step {first}"
        yield condition.name, run.ref.name, window, _read(run, condition, ("step", ">=", first))


def outcomes(rows: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """(how completions ended at the gates, tone, those completions), the most frequent first."""
    groups = [(str(label), str(tone), group) for (label, tone), group in rows.groupby(["label", "tone"], sort=False)]
    return sorted(groups, key=lambda group: -len(group[2]))


def frequent(rows: pd.DataFrame) -> list[tuple[str, int]]:
    """The most frequent texts with their counts."""
    counts = rows["text"].value_counts().rename_axis("text").reset_index().sort_values(["count", "text"], ascending=[False, True])
    return list(counts.head(TEXTS).itertuples(index=False, name=None))


def reward_range(rows: pd.DataFrame) -> str:
    """`0 to 0.5`, of completions whose reward is known."""
    rewards = rows["reward"].dropna()
    return " to ".join(dict.fromkeys(map(printed_reward, (rewards.min(), rewards.max())))) if len(rewards) else "not known"


def browse(condition: ConditionCard, run: RunFiles) -> Browser | None:
    """The first completions of evenly spaced steps, in the order of the file; None without completions."""
    steps = _steps(run)
    if steps.empty:
        return None
    chosen = spread(sorted(steps.unique().tolist()))
    rows = _read(run, condition, ("step", "in", chosen)).sort_values("step", kind="stable")
    rows = rows.groupby("step").head(OF_A_STEP)
    letters = rows["text"].str.len().clip(upper=LETTERS).groupby(rows["step"]).cumsum()
    return Browser(rows[letters <= ALL_LETTERS / len(chosen)], chosen, len(steps), run.folder.completions.as_posix())


def spread(steps: list[int]) -> list[int]:
    """At most six of the steps, the first and the last among them, as evenly as they allow."""
    if len(steps) <= STEPS:
        return steps
    return sorted({steps[round(index * (len(steps) - 1) / (STEPS - 1))] for index in range(STEPS)})


def _steps(run: RunFiles) -> pd.Series:
    path = run.folder.completions
    return pd.read_parquet(path, columns=["step"])["step"] if path.exists() else pd.Series(dtype=int)


def _read(run: RunFiles, condition: ConditionCard, rows: tuple[str, str, object]) -> pd.DataFrame:
    """Completions with `label` and `tone`: how each ended at the gates."""
    stored = set(pq.read_schema(run.folder.completions).names)
    gates = {gate: column for gate in condition.gates if (column := gate_columns(gate)[0]) in stored}
    wanted = [name for name in ("step", "prompt_id", "reward", "text") if name in stored]
    frame = pd.read_parquet(run.folder.completions, columns=[*wanted, *gates.values()], filters=[rows])
    frame = frame.rename(columns={"prompt_id": "prompt"}).reindex(columns=["step", "prompt", "reward", "text", *gates.values()])
    prompts = frame["prompt"].astype(object).where(frame["prompt"].notna(), "")
    frame = frame.assign(prompt=prompts, text=frame["text"].astype(str), label="passed every gate it reached", tone="pass")
    for gate, column in reversed(gates.items()):  # the first gate that does not pass decides
        frame.loc[frame[column] == "fail", ["label", "tone"]] = [f"failed {gate}", "fail"]
        frame.loc[frame[column] == "unknown", ["label", "tone"]] = [f"{gate} did not know", "unknown"]
    return frame


def printed_reward(reward: float | None, digits: int = 4) -> str:
    return "not known" if reward is None or pd.isna(reward) else numbers.setting(round(float(reward), digits))
