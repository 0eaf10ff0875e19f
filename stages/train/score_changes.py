"""Compare two scorings of the same completions: which rewards differ, what each gate says, how the curves move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from stages.contracts.history import gate_columns
from stages.contracts.reward import Reward
from stages.train.rescoring import CompletionChange, Counts, GateChange, Rescoring, Said, StepChange

TOLERANCE = 1e-9
"""Rewards that differ by less are equal."""

Completion = dict[str, Any]
"""A row of completions.parquet."""


def compared(stored: Sequence[Completion], made: Sequence[Completion], reward: Reward, **rest: Any) -> Rescoring:
    """The report of rows then and now, in one order. `rest`: its fields that no row tells."""
    before, after = pd.DataFrame(stored), pd.DataFrame(made)
    gates = [gate.name for gate in reward.gates]
    for gate in gates:  # a gate that the stored completions do not have
        before = before.reindex(columns=[*before, *(name for name in gate_columns(gate) if name not in before)])
    for frame in (before, after):
        scores = ["reward", *(gate_columns(gate)[1] for gate in gates)]
        frame[scores] = frame[scores].astype(float)
    old, new = before["reward"], after["reward"]
    moved = {gate: _gate_moved(before, after, gate) for gate in gates}
    return Rescoring(
        reward=reward.name,
        completions=len(stored),
        steps=before["step"].nunique(),
        higher=int((new > old + TOLERANCE).sum()),
        lower=int((new < old - TOLERANCE).sum()),
        newly_unknown=int((old.notna() & new.isna()).sum()),
        newly_known=int((old.isna() & new.notna()).sum()),
        changed=int(_moved(old, new).sum()),
        unknown_before=int(old.isna().sum()),
        unknown_after=int(new.isna().sum()),
        mean_before=_number(old.mean()),
        mean_after=_number(new.mean()),
        gates=tuple(_gate(before, after, gate, moved[gate]) for gate in gates),
        curve=_curve(before, new),
        changes=_changes(before, after, moved),
        **rest,
    )


def _moved(old: pd.Series, new: pd.Series) -> pd.Series:
    return (old.isna() != new.isna()) | ((old - new).abs() > TOLERANCE)


def _gate_moved(before: pd.DataFrame, after: pd.DataFrame, gate: str) -> pd.Series:
    """Where a gate that had judged the completion says something else now."""
    status, score, _ = gate_columns(gate)
    return before[status].notna() & ((before[status] != after[status]) | _moved(before[score], after[score]))


def _gate(before: pd.DataFrame, after: pd.DataFrame, gate: str, moved: pd.Series) -> GateChange:
    status = gate_columns(gate)[0]
    was_judged = bool(before[status].notna().any())
    passed, passes = before[status] == "pass", after[status] == "pass"
    return GateChange(
        gate=gate,
        before=_counts(before[status]) if was_judged else None,
        after=_counts(after[status]),
        changed=int(moved.sum()),
        gained=int((passes & ~passed).sum()) if was_judged else 0,
        lost=int((passed & ~passes).sum()) if was_judged else 0,
    )


def _counts(statuses: pd.Series) -> Counts:
    counts = statuses.value_counts()
    passed, failed, unknown, not_reached = (int(counts.get(name, 0)) for name in ("pass", "fail", "unknown", "not_reached"))
    return Counts(passed=passed, failed=failed, unknown=unknown, not_reached=not_reached)


def _changes(before: pd.DataFrame, after: pd.DataFrame, moved: dict[str, pd.Series]) -> tuple[CompletionChange, ...]:
    places = before.groupby(["attempt", "step"], sort=False).cumcount()
    any_moved = pd.DataFrame({**moved, "": _moved(before["reward"], after["reward"])}).any(axis=1)
    return tuple(
        CompletionChange(
            **{key: before.at[row, key] for key in ("attempt", "step", "prompt_id", "group", "text")},
            place=places[row],
            reward_before=_number(before.at[row, "reward"]),
            reward_after=_number(after.at[row, "reward"]),
            gates=tuple(_said(before.loc[row], after.loc[row], gate) for gate in moved if moved[gate][row]),
        )
        for row in before.index[any_moved]
    )


def _said(before: pd.Series, after: pd.Series, gate: str) -> Said:
    status, score, reason = gate_columns(gate)
    return Said(
        gate=gate,
        before=before[status],
        score_before=_number(before[score]),
        after=after[status],
        score_after=_number(after[score]),
        reason=after[reason] or "",
    )


def _curve(before: pd.DataFrame, new: pd.Series) -> tuple[StepChange, ...]:
    """By step. A later attempt replaces, from its first step on, all that came before it."""
    first = before.groupby("attempt", sort=False)["step"].min()
    end = first[::-1].cummin()[::-1].shift(-1, fill_value=before["step"].max() + 1)
    rows = before.assign(new=new)[before["step"] < before["attempt"].map(end)]
    groups = rows.groupby(["step", "group"])[["reward", "new"]].agg(["min", "max", "size"])
    groups = groups[groups["new", "size"] > 1]  # a completion that is alone in its group is compared with none
    silent = pd.DataFrame({name: ~(groups[name, "max"] > groups[name, "min"]) for name in ("reward", "new")}).groupby("step").agg("sum")
    sizes = groups.groupby("step").size()
    return tuple(
        StepChange(
            step=step,
            completions=len(part),
            reward_before=_number(part["reward"].mean()),
            reward_after=_number(part["new"].mean()),
            zero_signal_before=int(silent["reward"].get(step, 0)),
            zero_signal_after=int(silent["new"].get(step, 0)),
            groups=int(sizes.get(step, 0)),
            unknown_before=int(part["reward"].isna().sum()),
            unknown_after=int(part["new"].isna().sum()),
        )
        for step, part in rows.groupby("step")
    )


def _number(value: float) -> float | None:
    return None if pd.isna(value) else float(value)
