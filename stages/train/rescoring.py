"""What `octavo rescore` reports: which rewards differ between two scorings of the same completions, what each gate says, the curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import pandas as pd
from pydantic import ConfigDict

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.history import gate_columns
from stages.contracts.model import DatasetRef
from stages.contracts.reward import Reward

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


class Said(Frozen):
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
    gates: tuple[Said, ...]
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
            gates=tuple(_said(before.loc[row], after.loc[row], gate) for gate in moved if moved.at[row, gate]),
        )
        for row in before.index[moved.any(axis=1) | rewards]
    )


def _said(before: pd.Series, after: pd.Series, gate: str) -> Said:
    status, score, reason = gate_columns(gate)
    then, now = (_number(row[score]) for row in (before, after))
    return Said(gate=gate, before=before[status], score_before=then, after=after[status], score_after=now, reason=after[reason] or "")


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
