"""Texts of models on a page: prompt, completion, what each gate said of it, and the reward. Which are shown is decided by rules alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from stages.contracts.analysis_card import ConditionCard
from stages.contracts.files import BLANK, file_digest, parse_json, read_lines
from stages.contracts.history import ANSWER_COLUMN, PROMPT_COLUMN, gate_columns
from stages.contracts.model import DatasetRef
from stages.contracts.trajectory import of_last_attempts
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles

TEXTS = 3
STEPS, OF_A_STEP = 6, 16
LONGEST, LONGEST_PROMPT, ALL_LETTERS = 20_000, 2_000, 60_000
"""Letters of one text, of one prompt, and of all texts of a page that lists them."""
_NAMES = ("attempt", "step", "prompt_id", "sample", "text", PROMPT_COLUMN, ANSWER_COLUMN, "reward")


class Judged(NamedTuple):
    """What a gate said."""

    gate: str
    status: str
    score: float | None
    reason: str


class Entry(NamedTuple):
    """One text as a page shows it; equal completions of one prompt at one step are one entry."""

    subject: str
    """Condition, or `untrained`."""
    run: str
    step: int | None
    """None: held out."""
    prompt_id: str
    prompt: str | None
    """None: its text is not at hand."""
    text: str
    answer: str | None
    """What the gates judged, where a reward takes it out of the text."""
    reward: float | None
    label: str
    """How it ended at the gates."""
    tone: str
    judged: tuple[Judged, ...]
    times: int


class Browser(NamedTuple):
    entries: list[Entry]
    steps: list[int]
    total: int
    """Completions that the run has."""
    path: str


def prompts(data: DatasetRef | None) -> Mapping[str, str]:
    """Id -> text of the prompts of a file; nothing of a dataset of the hub, or of a file that is not the one that was trained on."""
    if data is None or data.path is None or not Path(data.path).is_file() or file_digest(Path(data.path)) != data.sha256:
        return {}
    return _prompts(data.path, data.sha256, data.prompt)


@lru_cache(maxsize=4)
def _prompts(path: str, sha256: str, key: str) -> Mapping[str, str]:
    """Of a file with this digest; every page of a run asks again."""
    rows = [parse_json(line) for line in read_lines(path) if line.strip(BLANK)]
    return {row["id"]: prompt_text(row[key]) for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str) and key in row}


def prompt_text(value: Any) -> str:
    """A prompt as one text; of chat messages `role: content`, one after the other."""
    if isinstance(value, list) and all(isinstance(message, dict) for message in value):
        return "\n".join(f"{message.get('role')}: {message.get('content')}" for message in value)
    return str(value)


def examples(experiment: ExperimentFiles) -> Iterator[tuple[ConditionCard, RunFiles, str, pd.DataFrame]]:
    """(condition, run, steps in words, completions): the final window of each condition's first included run (or first run) that has
    completions."""
    share = experiment.conclude.windows.final if experiment.conclude else 0.1
    for condition, run, steps in runs_with_texts(experiment):
        last = int(steps.max())
        first = max(int(steps.min()), last - max(1, round(share * run.ref.target_steps)) + 1)
        window = f"steps {first}–{last}" if first < last else f"step {first}"
        yield condition, run, window, _texts_of(run, condition, ("step", ">=", first))


def runs_with_texts(experiment: ExperimentFiles) -> Iterator[tuple[ConditionCard, RunFiles, pd.Series]]:
    """(condition, its first included run or else its first run that has completions, their steps)."""
    for condition in experiment.card.conditions:
        runs = sorted(experiment.of_condition(condition.name), key=lambda run: not run.included)
        run = next((run for run in runs if run.folder.completions.exists()), None)
        if run is not None and not (steps := _steps(run)).empty:
            yield condition, run, steps


def outcomes(rows: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """(how completions ended at the gates, tone, those completions), the most frequent first."""
    groups = [(str(label), str(tone), group) for (label, tone), group in rows.groupby(["label", "tone"], sort=False)]
    return sorted(groups, key=lambda group: -len(group[2]))


def frequent(condition: ConditionCard, run: RunFiles, alike: pd.DataFrame) -> list[Entry]:
    """The most frequent texts, each with its first prompt, counted over all of them."""
    counts = alike["text"].value_counts().rename_axis("text").reset_index(name="times")
    counts = counts.sort_values(["times", "text"], ascending=[False, True]).head(TEXTS)
    return entries(counts.merge(alike.drop_duplicates("text"), on="text"), condition, run)


def reward_range(rows: pd.DataFrame) -> str:
    """`0 to 0.5`, of completions whose reward is known."""
    rewards = rows["reward"].dropna()
    return " to ".join(dict.fromkeys(map(printed_reward, (rewards.min(), rewards.max())))) if len(rewards) else "not known"


def browse(condition: ConditionCard, run: RunFiles, letters: int = ALL_LETTERS) -> Browser | None:
    """Completions of evenly spaced steps: of each way in which they ended at the gates the best and the worst by reward, then what lies
    between, as far as the letters go. None without completions."""
    steps = _steps(run)
    if steps.empty:
        return None
    chosen = spread(sorted(steps.unique().tolist()))
    rows = _chosen(_texts_of(run, condition, ("step", "in", chosen)), letters)
    return Browser(entries(rows, condition, run), chosen, len(steps), run.folder.completions.as_posix())


def browsers(experiment: ExperimentFiles) -> Iterator[Browser]:
    """Completions of each condition's run for the page that a reader searches."""
    each = list(runs_with_texts(experiment))
    for condition, run, _ in each:
        if browser := browse(condition, run, ALL_LETTERS // len(each)):
            yield browser


def spread(steps: list[int]) -> list[int]:
    """At most six of the steps, the first and the last among them, as evenly as they allow."""
    if len(steps) <= STEPS:
        return steps
    return sorted({steps[round(index * (len(steps) - 1) / (STEPS - 1))] for index in range(STEPS)})


def _chosen(rows: pd.DataFrame, letters: int) -> pd.DataFrame:
    """One row for equal texts, with `times`, by step: outcomes take turns, each with its best, its worst, its second best and so on."""
    same = ["step", "prompt_id", "text"]
    rows = rows.assign(times=rows.groupby(same, dropna=False)["text"].transform("size")).drop_duplicates(same)
    rows = rows.sort_values(["step", "reward"], ascending=[True, False], kind="stable", na_position="last")
    alike = rows.groupby(["step", "label"], sort=False)
    rows = rows.assign(turn=np.minimum(2 * alike.cumcount(), 2 * alike.cumcount(ascending=False) + 1))
    rows = rows.sort_values("turn", kind="stable")
    rows = rows[rows.groupby("step").cumcount() < OF_A_STEP]
    letters_of = rows["text"].str.len().clip(upper=LONGEST) + rows[PROMPT_COLUMN].str.len().fillna(0).clip(upper=LONGEST_PROMPT) + 200
    before = letters_of.cumsum().shift(fill_value=0)
    return rows[before < letters].sort_values(["step", "turn"], kind="stable")


def _steps(run: RunFiles) -> pd.Series:
    path = run.folder.completions
    return pd.read_parquet(path, columns=["step"])["step"] if path.exists() else pd.Series(dtype=int)


def _texts_of(run: RunFiles, condition: ConditionCard, rows: tuple[str, str, object]) -> pd.DataFrame:
    return with_prompts(read_texts(run.folder.completions, condition.gates, rows), run.card.data if run.card else None)


def with_prompts(rows: pd.DataFrame, data: DatasetRef | None) -> pd.DataFrame:
    """Each prompt as the data have it, which is the question alone; where they are not at hand, as the model read it."""
    texts = prompts(data)
    asked = [texts.get(name, read) for name, read in zip(rows["prompt_id"], rows[PROMPT_COLUMN], strict=True)]
    return rows.assign(**{PROMPT_COLUMN: pd.Series(asked, index=rows.index, dtype=object)})


def as_read(run: RunFiles) -> tuple[str, str] | None:
    """(id, text) of a prompt as the model read it; None where it read what the data have, or where no text was kept."""
    if run.card is None or (run.card.data.layout is None and not run.card.model.apply_chat_template):
        return None
    path = run.folder.completions
    if not path.exists() or PROMPT_COLUMN not in pq.read_schema(path).names:
        return None
    rows = pd.read_parquet(path, columns=["prompt_id", PROMPT_COLUMN]).dropna()
    return next(rows.itertuples(index=False, name=None), None)


def read_texts(path: Path, gates: Sequence[str], rows: tuple[str, str, object] | None = None) -> pd.DataFrame:
    """Completions with `label` and `tone`: how each ended at the gates. Of a step that several attempts made the last one counts."""
    stored = set(pq.read_schema(path).names)
    wanted = [*_NAMES, *(column for gate in gates for column in gate_columns(gate))]
    frame = pd.read_parquet(path, columns=[name for name in wanted if name in stored], filters=[rows] if rows else None)
    if {"attempt", "step"} <= stored:
        frame = of_last_attempts(frame)
    frame = frame.reindex(columns=wanted)
    ids = frame["prompt_id"].astype(object).where(frame["prompt_id"].notna(), "")
    frame = frame.assign(prompt_id=ids, text=frame["text"].astype(str), label="passed every gate it reached", tone="pass")
    for gate in reversed(gates):  # the first gate that does not pass decides
        status = frame[gate_columns(gate)[0]]
        frame.loc[status == "fail", ["label", "tone"]] = [f"failed {gate}", "fail"]
        frame.loc[status == "unknown", ["label", "tone"]] = [f"{gate} did not know", "unknown"]
    return frame


def entries(rows: pd.DataFrame, condition: ConditionCard, run: RunFiles) -> list[Entry]:
    """Rows of training as a page shows them."""
    return [entry(row, condition.gates, condition.name, run.ref.name) for row in rows.to_dict("records")]


def entry(row: Mapping[str, Any], gates: Iterable[str], subject: str, run: str) -> Entry:
    """A row of completions or of the shared evaluation."""
    cells = [(gate, *(known(row[name]) for name in gate_columns(gate))) for gate in gates]
    step, reward = known(row["step"]), known(row["reward"])
    return Entry(
        subject=subject,
        run=run,
        step=None if step is None else int(step),
        prompt_id=row["prompt_id"],
        prompt=known(row[PROMPT_COLUMN]),
        text=row["text"],
        answer=known(row[ANSWER_COLUMN]),
        reward=reward,
        label=row["label"],
        tone=row["tone"],
        judged=tuple(
            Judged(gate, status, score, reason or "") for gate, status, score, reason in cells if status not in (None, "not_reached")
        ),
        times=int(row.get("times", 1)),
    )


def known(cell: Any) -> Any:
    """A cell; None for one that is empty."""
    return None if pd.isna(cell) else cell


def printed_reward(reward: float | None, digits: int = 4) -> str:
    return "not known" if reward is None or pd.isna(reward) else numbers.setting(round(float(reward), digits))
