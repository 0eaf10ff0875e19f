"""Runs for detectors from plain data: cells by metric, and counts of completions in place of completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stages.analyse import signals
from stages.analyse.cells import NOT_FINITE, NULL
from stages.analyse.frames import Run, read_run
from stages.contracts.analysis_card import ConditionCard, RunRef
from stages.contracts.health import Detection
from stages.contracts.layout import RunFolder

Cell = tuple[int, float | None, str]
_STATES = {"nonfinite": NOT_FINITE, "null": NULL}


class Share(NamedTuple):
    """k of n at a step."""

    step: int
    k: int
    n: int


class RewardCount(NamedTuple):
    """How many completions of a step have one exact reward."""

    step: int
    reward: float
    completions: int


@dataclass(frozen=True)
class CompletionsSummary:
    completions: int
    unknown: int
    zero_signal: tuple[Share, ...] = ()
    truncated: tuple[Share, ...] = ()
    rewards: tuple[RewardCount, ...] = ()
    examples: Mapping[float, tuple[str, ...]] = field(default_factory=dict)


def run_from(
    metrics: Mapping[str, Sequence[Cell]],
    completions: CompletionsSummary | None = None,
    *,
    same_text: Iterable[Share] = (),
    run: str = "r-s1",
    condition: str = "r",
    role: str = "treatment",
    target_steps: int = 60,
    **around: Any,
) -> Run:
    """A run with these cells (step, value, state). `around`: more fields of Run."""
    columns = {name: {step: _STATES.get(state, value) for step, value, state in cells} for name, cells in metrics.items()}
    steps = pd.DataFrame({name: pd.Series(cells, dtype=float) for name, cells in columns.items()}).sort_index()
    steps.index = steps.index.astype(int)
    filled_run = Run(run, condition, role, target_steps, steps, **around)
    filled_run.same_text = _counts(same_text)  # type: ignore[misc]
    filled_run.given = {"metrics": metrics, "completions": completions, "same_text": same_text}  # type: ignore[attr-defined]
    if completions is not None:
        cut = completions.truncated or [Share(step, 0, 1) for step in range(1, 2) if completions.completions]
        filled_run.silent, filled_run.cut = _counts(completions.zero_signal), _counts(cut)  # type: ignore[misc]
        filled_run.examples = {value: list(texts) for value, texts in completions.examples.items()}  # type: ignore[misc]
        if completions.rewards:
            table = pd.DataFrame(completions.rewards).pivot_table(index="step", columns="reward", values="completions", aggfunc="sum")
            filled_run.rewards = table.fillna(0).astype(int)  # type: ignore[misc]
    return filled_run


STEPS = range(1, 61)


def seen(
    role: str = "treatment", completions: CompletionsSummary | None = None, around: dict[str, Any] | None = None, **metrics: Any
) -> Run:
    """A run of 60 target steps. A metric is {step: value}, or one value for all steps; "nan" is not finite, None null."""

    def cell(step: int, value: Any) -> Cell:
        return (step, None, "nonfinite") if value == "nan" else (step, None, "null") if value is None else (step, float(value), "value")

    courses = {name: value if isinstance(value, dict) else dict.fromkeys(STEPS, value) for name, value in metrics.items()}
    cells = {name: tuple(cell(step, value) for step, value in sorted(course.items())) for name, course in courses.items()}
    return run_from(cells, completions, role=role, **(around or {}))


def ramp(first: float, last: float) -> dict[int, float]:
    """Flat for the first six steps, flat for the last six, a line between."""
    return {step: first + (last - first) * min(1.0, max(0.0, (step - 6) / 49)) for step in STEPS}


def ask(plugin: Any, run: Run, **settings: Any) -> Detection:
    """What a detector says of a run."""
    return signals.ask(plugin.__name__.rpartition(".")[2], plugin, settings, run)


def remade(run: Run, **changes: Any) -> Run:
    """The run with other cells, completions or fields."""
    names = ("condition", "role", "target_steps", "resumes", "repeated", "adapter", "imported", "null_finals", "siblings", "twin")
    own = {"run": run.name, **{name: getattr(run, name) for name in names}}
    return run_from(**{**own, **run.given, **changes})  # type: ignore[attr-defined]


def _counts(shares: Iterable[Share]) -> pd.DataFrame:
    rows = list(shares)
    return pd.DataFrame({"k": [row[1] for row in rows], "n": [row[2] for row in rows]}, index=pd.Index([row[0] for row in rows], dtype=int))


def read_history(path: Path, *, role: str = "treatment", target_steps: int = 60, completions: Sequence[str] = ()) -> Run:
    """The run of a history.parquet, and these columns of the completions.parquet beside it."""
    ref = RunRef(name="r-s1", condition="r", seed=1, target_steps=target_steps)
    condition = ConditionCard(name="r", role=role, reward="r", gates=())  # type: ignore[arg-type]
    assert path.name == "history.parquet"
    return read_run(RunFolder(path.parent), ref, condition, completions)
