"""What the models write: the most frequent completions of each outcome in the final window, as counted, never picked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from stages.contracts.analysis_card import ConditionCard
from stages.contracts.history import gate_columns
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import setting

TEXTS, LETTERS = 3, 600


@dataclass(frozen=True)
class ExampleText:
    text: str
    times: int
    cut: int
    """Letters that are not shown."""


@dataclass(frozen=True)
class Outcome:
    """Completions that ended the same way at the gates."""

    label: str
    tone: str
    count: int
    rewards: str
    texts: tuple[ExampleText, ...]


@dataclass(frozen=True)
class Examples:
    condition: str
    run: str
    window: str
    count: int
    outcomes: tuple[Outcome, ...]


def examples(experiment: ExperimentFiles) -> tuple[Examples, ...]:
    """For each condition its first included run (or first run) that has completions."""
    share = experiment.conclude.windows.final if experiment.conclude else 0.1
    found = []
    for condition in experiment.card.conditions:
        runs = sorted(experiment.of_condition(condition.name), key=lambda run: not run.included)
        run = next((run for run in runs if run.folder.completions.exists()), None)
        if run and (example := _of_run(condition, run, share)):
            found.append(example)
    return tuple(found)


def _of_run(condition: ConditionCard, run: RunFiles, share: float) -> Examples | None:
    import pyarrow.parquet as pq

    names = [gate_columns(gate)[0] for gate in condition.gates]
    schema = pq.read_schema(run.folder.completions)
    names = [name for name in names if name in schema.names]
    steps = pq.read_table(run.folder.completions, columns=["step"])["step"].to_pylist()
    if not steps:
        return None
    first = max(min(steps), max(steps) - max(1, round(share * run.ref.target_steps)) + 1)
    rows = pq.read_table(run.folder.completions, columns=["text", "reward", *names], filters=[("step", ">=", first)]).to_pylist()
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(outcome_of(row, condition), []).append(row)
    outcomes = [_group(label, tone, members) for (label, tone), members in groups.items()]
    outcomes.sort(key=lambda outcome: -outcome.count)
    return Examples(
        condition.name, run.ref.name, f"steps {first}–{max(steps)}" if first < max(steps) else f"step {first}", len(rows), tuple(outcomes)
    )


def outcome_of(row: dict[str, Any], condition: ConditionCard) -> tuple[str, str]:
    """(words, tone) of how a completion ended at the gates."""
    for gate in condition.gates:
        status = row.get(gate_columns(gate)[0])
        if status == "fail":
            return f"failed {gate}", "fail"
        if status == "unknown":
            return f"{gate} did not know", "unknown"
    return "passed every gate it reached", "pass"


def _group(label: str, tone: str, rows: list[dict[str, Any]]) -> Outcome:
    counts = Counter(str(row["text"]) for row in rows)
    rewards = sorted({row["reward"] for row in rows if row["reward"] is not None})
    ends = sorted({setting(round(float(reward), 4)) for reward in (rewards[:1] + rewards[-1:])}, key=float)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TEXTS]
    texts = tuple(ExampleText(text[:LETTERS], times, max(0, len(text) - LETTERS)) for text, times in ordered)
    return Outcome(label, tone, len(rows), " to ".join(ends) if ends else "not known", texts)
