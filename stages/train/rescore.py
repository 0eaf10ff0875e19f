"""Score the stored completions of a run again with today's gates, and say what changes. Reads only; no stage of a pipeline.

The gates, their order, the curriculum's phase and the keys of seeded gates are as they were in training, step by step, so equal gates
give equal rewards. `octavo rescore` prints the report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
from pydantic import ConfigDict

from stages.contracts.artifact import Artifact, ArtifactError, Frozen
from stages.contracts.diagnostic import StageError
from stages.contracts.history import COMPLETIONS_COLUMNS, COMPLETIONS_SCHEMA, gate_columns
from stages.contracts.layout import RunFolder
from stages.contracts.model import DatasetRef
from stages.contracts.plugin import Answer
from stages.contracts.reward import Reward
from stages.train.data import Row, read_rows
from stages.train.rewards.compose import Composed, compose, sandbox
from stages.train.scoring import completion_rows

NO_ROW = "its prompt is no longer in the data"
TOLERANCE = 1e-9
"""Rewards that differ by less are equal."""

Completion = dict[str, Any]
"""A row of completions.parquet."""


class ScoredCard(Frozen):
    """What scoring needs of a train card, of whatever algorithm and age: keys that it does not know are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    experiment: str
    condition: str
    seed: int
    data: DatasetRef
    reward: Reward
    train: dict[str, Any]


class Counts(Frozen):
    """What a gate said of all completions."""

    passed: int
    failed: int
    unknown: int
    not_reached: int


class GateChange(Frozen):
    """One gate then and now. `before` is null when the stored completions have no columns of it."""

    gate: str
    before: Counts | None
    after: Counts
    changed: int
    """Completions that it judges differently: another status, or another score."""
    gained: int
    """Of those: it passes them and did not before."""
    lost: int
    """Of those: it passed them and does not now."""


class StepChange(Frozen):
    """One step of the curves. Means are over known rewards, null when there are none."""

    step: int
    completions: int
    reward_before: float | None
    reward_after: float | None
    zero_signal_before: int
    """Groups whose known rewards were all equal."""
    zero_signal_after: int
    groups: int
    """Of two completions or more: PPO compares none."""
    unknown_before: int
    unknown_after: int


class GateVerdict(Frozen):
    """One gate on one completion. Statuses as in stages/contracts/history.py."""

    gate: str
    before: str | None
    score_before: float | None
    after: str
    score_after: float | None
    reason: str
    """Today's reason; untrusted."""


class CompletionChange(Frozen):
    """A completion whose reward, or what a gate says of it, is another one today."""

    attempt: str
    step: int
    prompt_id: str
    group: int
    place: int
    """0-based, among the step's completions."""
    reward_before: float | None
    reward_after: float | None
    gates: tuple[GateVerdict, ...]
    """Those that say something else."""
    text: str
    """The completion; untrusted."""


class Rescoring(Artifact):
    """The report."""

    SCHEMA: ClassVar[str] = "octavo.rescoring/1"

    run: str
    scored_with: Literal["card", "spec"]
    """card: the reward that the run was trained on; spec: the one that the spec declares now."""
    reward: str
    card_id: str
    """Card of the attempt that wrote the completions."""
    sandbox: str
    seconds: float
    completions: int
    steps: int
    higher: int
    """Completions whose reward rose. Both rewards known, as for `lower`."""
    lower: int
    newly_unknown: int
    newly_known: int
    changed: int
    """Completions whose reward is another one: the four above."""
    unknown_before: int
    unknown_after: int
    without_row: int
    """Completions whose prompt is no longer in the data: unknown today."""
    mean_before: float | None
    mean_after: float | None
    gates: tuple[GateChange, ...]
    curve: tuple[StepChange, ...]
    """One entry a step; of a step that was made twice, the attempt that counts."""
    changes: tuple[CompletionChange, ...]


def rescore(
    run: RunFolder, card: ScoredCard, scored_with: Literal["card", "spec"], progress: Callable[[int, int], None]
) -> tuple[Rescoring, list[Completion]]:
    """The report, and the rows of a new completions.parquet. `progress` gets (completions scored so far, all of them). Raises StageError
    S298 when there are no completions, S201 and S202 for the data, S220 when no sandbox holds; ArtifactError for a file that is none
    of ours."""
    stored, metadata = read_completions(run.completions)
    tier = sandbox(card.reward.gates)
    rows = {row["id"]: row for row in read_rows(card.data)}
    composed, begun = compose(card.reward), time.monotonic()
    scored: list[Completion] = []
    for _, batch in groupby(stored, key=lambda row: (row["attempt"], row["step"])):
        scored += _scored_again(card, composed, list(batch), rows)
        progress(len(scored), len(stored))
    report = compare(
        stored,
        scored,
        card.reward,
        run=run.root.as_posix(),
        scored_with=scored_with,
        card_id=metadata.get("octavo.card_id", ""),
        sandbox=tier,
        seconds=round(time.monotonic() - begun, 3),
        without_row=sum(row["prompt_id"] not in rows for row in stored),
    )
    return report, scored


def read_completions(path: Path) -> tuple[list[Completion], dict[str, str]]:
    """All rows of a completions.parquet, in the order they were made, and its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise _no_completions(path, "is missing")
    try:
        table = pq.read_table(path, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise ArtifactError(path, f"not a Parquet file: {error}", why="it was cut or overwritten", fix=f"dvc checkout {path}") from None
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    missing = sorted(set(COMPLETIONS_COLUMNS) - set(table.column_names))
    if metadata.get("octavo.schema") != COMPLETIONS_SCHEMA or missing:
        what = f"schema is {metadata.get('octavo.schema')!r}, columns missing: {', '.join(missing) or 'none'}"
        raise ArtifactError(path, what, why=f"completions are {COMPLETIONS_SCHEMA}", fix=f"dvc checkout {path}")
    if not table.num_rows:
        raise _no_completions(path, "holds none")
    return table.to_pylist(), metadata


def _scored_again(card: ScoredCard, composed: Composed, batch: Sequence[Completion], rows: Mapping[str, Row]) -> list[Completion]:
    """One batch with today's rewards. A completion whose prompt is gone is unknown and never reaches a gate."""
    step, steps = batch[0]["step"], card.train.get("max_steps")
    answers = [
        Answer(row["text"], rows[name], row["truncated"], f"{card.seed}:{step}:{name}:{place}", tokens=row["tokens"])
        for place, row in enumerate(batch)
        if (name := row["prompt_id"]) in rows
    ]
    progress = (step - 1) / steps if card.reward.curriculum and steps else 0.0
    scores = iter(completion_rows(composed.score(answers, progress), answers, [0] * len(answers), 1))
    gone: Completion = {"reward": None}
    for gate in card.reward.gates:
        gone |= dict(zip(gate_columns(gate.name), ("unknown", None, NO_ROW), strict=True))
    kept = [column for column in COMPLETIONS_COLUMNS if column != "reward"]
    return [{**(next(scores) if row["prompt_id"] in rows else gone), **{column: row[column] for column in kept}} for row in batch]


def _no_completions(path: Path, what: str) -> StageError:
    return StageError(
        "S298",
        f"no completions to score again: {path} {what}",
        why="a run keeps the completions that it was trained on; one that never trained, or was imported without them, has none",
        fix=f"dvc pull {path}, or dvc repro",
    )


def compare(stored: Sequence[Completion], scored: Sequence[Completion], reward: Reward, **rest: Any) -> Rescoring:
    """The report of rows then and now, in one order. `rest`: its fields that no row holds."""
    gates = {gate.name: gate_columns(gate.name) for gate in reward.gates}
    before, after = pd.DataFrame(stored), pd.DataFrame(scored)
    before = before.reindex(columns=[*dict.fromkeys([*before, *(column for columns in gates.values() for column in columns)])])
    numbers = dict.fromkeys(["reward", *(score for _, score, _ in gates.values())], float)
    before, after = before.astype(numbers), after.astype(numbers)
    old, new = before["reward"], after["reward"]
    moved = pd.DataFrame(
        {
            gate: before[status].notna() & ((before[status] != after[status]) | _differ(before[score], after[score]))
            for gate, (status, score, _) in gates.items()
        }
    )
    return Rescoring(
        reward=reward.name,
        completions=len(stored),
        steps=before["step"].nunique(),
        higher=int((new > old + TOLERANCE).sum()),
        lower=int((new < old - TOLERANCE).sum()),
        newly_unknown=int((old.notna() & new.isna()).sum()),
        newly_known=int((old.isna() & new.notna()).sum()),
        changed=int(_differ(old, new).sum()),
        unknown_before=int(old.isna().sum()),
        unknown_after=int(new.isna().sum()),
        mean_before=_number(old.mean()),
        mean_after=_number(new.mean()),
        gates=tuple(_gate(gate, before[status], after[status], moved[gate]) for gate, (status, _, _) in gates.items()),
        curve=_curve(before.assign(new=new)),
        changes=_changes(before, after, moved, _differ(old, new)),
        **rest,
    )


def _differ(old: pd.Series, new: pd.Series) -> pd.Series:
    return (old.isna() != new.isna()) | ((old - new).abs() > TOLERANCE)


def _gate(gate: str, before: pd.Series, after: pd.Series, moved: pd.Series) -> GateChange:
    was_judged = bool(before.notna().any())
    gained, lost = (after == "pass") & (before != "pass"), (before == "pass") & (after != "pass")
    return GateChange(
        gate=gate,
        before=_counts(before) if was_judged else None,
        after=_counts(after),
        changed=int(moved.sum()),
        gained=int(gained.sum()) if was_judged else 0,
        lost=int(lost.sum()),
    )


def _counts(statuses: pd.Series) -> Counts:
    counts = statuses.value_counts()
    passed, failed, unknown, not_reached = (int(counts.get(name, 0)) for name in ("pass", "fail", "unknown", "not_reached"))
    return Counts(passed=passed, failed=failed, unknown=unknown, not_reached=not_reached)


def _changes(before: pd.DataFrame, after: pd.DataFrame, moved: pd.DataFrame, rewards: pd.Series) -> tuple[CompletionChange, ...]:
    places = before.groupby(["attempt", "step"], sort=False).cumcount()
    return tuple(
        CompletionChange(
            **{key: before.at[row, key] for key in ("attempt", "step", "prompt_id", "group", "text")},
            place=places[row],
            reward_before=_number(before.at[row, "reward"]),
            reward_after=_number(after.at[row, "reward"]),
            gates=tuple(_gate_verdict(before.loc[row], after.loc[row], gate) for gate in moved if moved.at[row, gate]),
        )
        for row in before.index[moved.any(axis=1) | rewards]
    )


def _gate_verdict(before: pd.Series, after: pd.Series, gate: str) -> GateVerdict:
    status, score, reason = gate_columns(gate)
    then, now = (_number(row[score]) for row in (before, after))
    return GateVerdict(
        gate=gate, before=before[status], score_before=then, after=after[status], score_after=now, reason=after[reason] or ""
    )


def _curve(rows: pd.DataFrame) -> tuple[StepChange, ...]:
    """By step. A later attempt replaces, from its first step on, all that came before it."""
    first = rows.groupby("attempt", sort=False)["step"].min()
    end = first[::-1].cummin()[::-1].shift(-1, fill_value=rows["step"].max() + 1)
    rows = rows[rows["step"] < rows["attempt"].map(end)]
    groups = rows.groupby(["step", "group"])[["reward", "new"]]
    is_silent = ~(groups.max() > groups.min())[groups.size() > 1]  # a completion that is alone in its group is compared with none
    silent = is_silent.groupby("step").agg(["sum", "size"])
    return tuple(
        StepChange(
            step=step,
            completions=len(part),
            reward_before=_number(part["reward"].mean()),
            reward_after=_number(part["new"].mean()),
            zero_signal_before=int(silent["reward", "sum"].get(step, 0)),
            zero_signal_after=int(silent["new", "sum"].get(step, 0)),
            groups=int(silent["new", "size"].get(step, 0)),
            unknown_before=int(part["reward"].isna().sum()),
            unknown_after=int(part["new"].isna().sum()),
        )
        for step, part in rows.groupby("step")
    )


def _number(value: float) -> float | None:
    return None if pd.isna(value) else float(value)
