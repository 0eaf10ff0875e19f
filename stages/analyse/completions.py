"""A run's completions and evaluation as analysis needs them: attempts merged, counts a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.analyse.arrays import Table, read_table
from stages.analyse.tables import merge_attempts
from stages.contracts.history import COMPLETIONS_SCHEMA, EVALUATION_SCHEMA, gate_columns
from stages.contracts.series import CompletionsSummary, RewardCount, Share

Completions = Table
"""step, group, reward (NaN: unknown) and truncated in `numbers`; the status of each gate, and text when asked for, in `words`."""

_EXAMPLES = 3
_EXAMPLE_CHARS = 400
_NOTABLE = 0.05
"""Texts are kept for reward values that hold at least this share of a run's completions."""


def read_completions(path: Path, gates: Sequence[str] = (), *, texts: bool = False) -> Completions:
    """Completions with attempts merged: step, group, reward, truncated, the status of each gate, and text when asked for."""
    numbers, words = ("step", "group", "reward", "truncated"), [gate_columns(gate)[0] for gate in gates] + (["text"] if texts else [])
    wanted = ["attempt", *numbers, *words]
    table, _ = read_table(path, COMPLETIONS_SCHEMA, wanted, lambda *_: wanted)
    return Table.empty(numbers, words) if table is None else merge_attempts(table)[0]


@dataclass(frozen=True)
class ScoreCounts:
    """What one score of the shared evaluation said of a model's completions."""

    passed: int
    failed: int
    unknown: int
    score: float | None
    """Mean score of the known ones; null when there are none."""


@dataclass(frozen=True)
class Evaluation:
    path: Path
    attempt: str | None
    """Attempt of the adapter that was evaluated; null when there is no file."""
    scores: Mapping[str, ScoreCounts]


def read_evaluation(path: Path, scores: Sequence[str]) -> Evaluation:
    """Counts per score of evaluation.parquet; no scores when the file is missing or has no rows."""
    wanted = [column for score in scores for column in gate_columns(score)[:2]]
    table, metadata = read_table(path, EVALUATION_SCHEMA, wanted, lambda *_: wanted)
    if table is None or not table.rows:
        return Evaluation(path, metadata.get("octavo.attempt"), {})
    counts = {}
    for score in scores:
        status, value, _ = gate_columns(score)
        known = table.numbers[value][~np.isnan(table.numbers[value])]
        passed, failed, unknown = table.text(status).count("pass", "fail", "unknown")
        counts[score] = ScoreCounts(passed, failed, unknown, float(known.mean()) if len(known) else None)
    return Evaluation(path, metadata.get("octavo.attempt"), counts)


_Ints = NDArray[np.int64]


def _runs(*keys: NDArray[np.generic]) -> tuple[_Ints, _Ints, _Ints]:
    """(order of the rows by these keys, the first counting most; where each run of equal keys begins in it; length of each run)."""
    order = np.lexsort(keys[::-1])
    changed = np.zeros(len(order), dtype=bool)
    changed[:1] = True
    for key in keys:
        held = key[order]
        changed[1:] |= held[1:] != held[:-1]
    begins = np.flatnonzero(changed)
    return order, begins, np.diff(begins, append=len(order))


def _per_step(steps: NDArray[np.int64], counted: NDArray[np.generic]) -> list[Share]:
    """Sum (k) and number (n) of what is counted at each step."""
    order, begins, sizes = _runs(steps)
    sums = np.add.reduceat(counted[order].astype(np.int64), begins) if len(begins) else begins
    return [Share(*row) for row in zip(steps[order[begins]].tolist(), sums.tolist(), sizes.tolist(), strict=True)]


def same_text(completions: Completions) -> tuple[Share, ...]:
    """Per step with two prompts or more: completions with the step's most common text (k) of all (n)."""
    steps, texts = completions.numbers["step"], completions.text("text").codes
    order, begins, _ = _runs(steps, completions.numbers["group"])
    prompts = _per_step(steps[order[begins]], np.ones(len(begins)))
    several = {share.step for share in prompts if share.n > 1}
    order, begins, sizes = _runs(steps, texts)
    most: dict[int, int] = {}
    whole: dict[int, int] = {}
    for step, code, size in zip(steps[order[begins]].tolist(), texts[order[begins]].tolist(), sizes.tolist(), strict=True):
        whole[step] = whole.get(step, 0) + size
        most[step] = max(most.get(step, 0), size if code >= 0 else 0)
    return tuple(Share(step, most[step], whole[step]) for step in whole if step in several)


def completions_summary(completions: Completions) -> CompletionsSummary:
    """Counts per step of completions with the columns step, group, reward, truncated and text."""
    steps, rewards = completions.numbers["step"], np.round(completions.numbers["reward"], 9) + 0.0
    # rounded: equal rewards written by different arithmetic are one value
    known = ~np.isnan(rewards)
    held_order, held_begins, held_sizes = _runs(steps[known], rewards[known])
    at = held_order[held_begins]
    held = zip(steps[known][at].tolist(), rewards[known][at].tolist(), held_sizes.tolist(), strict=True)
    values, totals = np.unique(rewards[known], return_counts=True)
    notable = values[totals >= _NOTABLE * completions.rows].tolist()
    return CompletionsSummary(
        completions=completions.rows,
        unknown=int((~known).sum()),
        zero_signal=tuple(groups_without_signal(completions)),
        truncated=tuple(_per_step(steps, completions.numbers["truncated"])),
        rewards=tuple(RewardCount(*row) for row in held),
        examples={value: _texts(completions, rewards == value) for value in notable},
    )


def groups_without_signal(completions: Completions) -> list[Share]:
    """Per step: groups of two completions or more without two different known rewards (k) of all such groups (n)."""
    steps, rewards = completions.numbers["step"], completions.numbers["reward"]
    order, begins, sizes = _runs(steps, completions.numbers["group"])
    if not len(begins):
        return []
    low, high = np.fmin.reduceat(rewards[order], begins), np.fmax.reduceat(rewards[order], begins)
    several = sizes > 1  # one completion a prompt (PPO): there is nothing to compare
    return _per_step(steps[order[begins]][several], ~(high > low)[several])


def _texts(completions: Completions, rows: NDArray[np.bool_]) -> tuple[str, ...]:
    """The last distinct texts of these rows, in their order."""
    texts = completions.text("text")
    latest = texts.codes[rows][::-1]
    first = np.sort(np.unique(latest, return_index=True)[1])[:_EXAMPLES][::-1]
    return tuple(texts.names[code][:_EXAMPLE_CHARS] if code >= 0 else "" for code in latest[first].tolist())
