"""Completions of a run to leaf through: the first ones of some steps over the whole run, as many as a light page holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stages.contracts.analysis_card import ConditionCard
from stages.contracts.history import gate_columns
from stages.publish import numbers
from stages.publish.examples import outcome_of
from stages.publish.experiment import RunFiles

STEPS, OF_A_STEP, LETTERS, ALL_LETTERS = 6, 24, 400, 60_000


@dataclass(frozen=True)
class Shown:
    step: int
    prompt: str
    reward: str
    outcome: str
    tone: str
    text: str
    cut: int
    """Letters that are not shown."""


@dataclass(frozen=True)
class Browser:
    rows: tuple[Shown, ...]
    steps: tuple[int, ...]
    of: int
    """Completions that the run has."""
    path: str


def browse(condition: ConditionCard, run: RunFiles) -> Browser | None:
    """None when the run has no completions. Which are shown is decided by their order alone, never by what they say."""
    import pyarrow.parquet as pq

    if not run.folder.completions.exists():
        return None
    known = set(pq.read_schema(run.folder.completions).names)
    steps = pq.read_table(run.folder.completions, columns=["step"])["step"].to_pylist()
    if not steps:
        return None
    chosen = spread(sorted(set(steps)))
    gates = [name for gate in condition.gates if (name := gate_columns(gate)[0]) in known]
    columns = [name for name in ("step", "prompt_id", "reward", "text") if name in known]
    rows = pq.read_table(run.folder.completions, columns=[*columns, *gates], filters=[("step", "in", chosen)]).to_pylist()
    shown: list[Shown] = []
    for step in chosen:
        letters = 0
        for row in [row for row in rows if row["step"] == step][:OF_A_STEP]:
            letters += min(LETTERS, len(str(row["text"])))
            if letters > ALL_LETTERS / len(chosen):
                break
            shown.append(_shown(row, condition))
    return Browser(tuple(shown), tuple(chosen), len(steps), run.folder.completions.as_posix())


def spread(steps: list[int]) -> list[int]:
    """At most six of the steps, the first and the last among them, as evenly as they allow."""
    if len(steps) <= STEPS:
        return steps
    return sorted({steps[round(index * (len(steps) - 1) / (STEPS - 1))] for index in range(STEPS)})


def _shown(row: dict[str, Any], condition: ConditionCard) -> Shown:
    outcome, tone = outcome_of(row, condition)
    text, reward = str(row["text"]), row.get("reward")
    return Shown(
        step=row["step"],
        prompt=str(row.get("prompt_id") or ""),
        reward="not known" if reward is None else numbers.setting(round(float(reward), 4)),
        outcome=outcome,
        tone=tone,
        text=text[:LETTERS],
        cut=max(0, len(text) - LETTERS),
    )
