"""Two scorings of the same completions, held against each other: which rewards are others, what each gate says, how the curves move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from stages.contracts.history import gate_columns
from stages.contracts.reward_card import RewardCard
from stages.train.rescoring import CompletionChange, Counts, GateChange, Rescoring, Said, StepChange
from stages.train.scoring import zero_signal_groups

TOLERANCE = 1e-9
"""Rewards that differ by less are equal."""

Completion = dict[str, Any]
"""A row of completions.parquet."""


def compared(stored: Sequence[Completion], made: Sequence[Completion], reward: RewardCard, **rest: Any) -> Rescoring:
    """The report of rows then and now, in one order. `rest`: its fields that no row tells."""
    changes = _changes(stored, made, [gate.name for gate in reward.gates])
    pairs = [(before["reward"], after["reward"]) for before, after in zip(stored, made, strict=True)]
    known = [(before, after) for before, after in pairs if before is not None and after is not None]
    higher, lower = sum(after > before + TOLERANCE for before, after in known), sum(after < before - TOLERANCE for before, after in known)
    newly_unknown = sum(before is not None and after is None for before, after in pairs)
    newly_known = sum(before is None and after is not None for before, after in pairs)
    return Rescoring(
        reward=reward.name,
        completions=len(stored),
        steps=len({row["step"] for row in stored}),
        higher=higher,
        lower=lower,
        newly_unknown=newly_unknown,
        newly_known=newly_known,
        changed=higher + lower + newly_unknown + newly_known,
        unknown_before=sum(before is None for before, _ in pairs),
        unknown_after=sum(after is None for _, after in pairs),
        mean_before=_mean([before for before, _ in pairs]),
        mean_after=_mean([after for _, after in pairs]),
        gates=tuple(_gate(stored, made, gate.name) for gate in reward.gates),
        curve=_curve(stored, made),
        changes=changes,
        **rest,
    )


def _changes(stored: Sequence[Completion], made: Sequence[Completion], gates: Sequence[str]) -> tuple[CompletionChange, ...]:
    found = []
    places: Counter[tuple[str, int]] = Counter()
    for before, after in zip(stored, made, strict=True):
        place = places[before["attempt"], before["step"]]
        places[before["attempt"], before["step"]] += 1
        said = tuple(_said(before, after, gate) for gate in gates if _differs(before, after, gate))
        if said or _other(before["reward"], after["reward"]):
            found.append(
                CompletionChange(
                    **{key: before[key] for key in ("attempt", "step", "prompt_id", "group", "text")},
                    place=place,
                    reward_before=before["reward"],
                    reward_after=after["reward"],
                    gates=said,
                )
            )
    return tuple(found)


def _said(before: Completion, after: Completion, gate: str) -> Said:
    status, score, reason = gate_columns(gate)
    return Said(
        gate=gate,
        before=before.get(status),
        score_before=before.get(score),
        after=after[status],
        score_after=after[score],
        reason=after[reason] or "",
    )


def _differs(before: Completion, after: Completion, gate: str) -> bool:
    """Whether a gate that had judged the completion says something else now."""
    status, score, _ = gate_columns(gate)
    return before.get(status) is not None and (before[status] != after[status] or _other(before.get(score), after[score]))


def _other(before: float | None, after: float | None) -> bool:
    return (before is None) != (after is None) or (before is not None and after is not None and abs(before - after) > TOLERANCE)


def _gate(stored: Sequence[Completion], made: Sequence[Completion], gate: str) -> GateChange:
    status = gate_columns(gate)[0]
    old = status in stored[0]
    pairs = list(zip(stored, made, strict=True))
    passes = [(before.get(status) == "pass", after[status] == "pass") for before, after in pairs] if old else []
    return GateChange(
        gate=gate,
        before=_counts([row.get(status) for row in stored]) if old else None,
        after=_counts([row[status] for row in made]),
        changed=sum(_differs(before, after, gate) for before, after in pairs),
        gained=sum(after and not before for before, after in passes),
        lost=sum(before and not after for before, after in passes),
    )


def _counts(statuses: Sequence[str | None]) -> Counts:
    found = Counter(statuses)
    return Counts(passed=found["pass"], failed=found["fail"], unknown=found["unknown"], not_reached=found["not_reached"])


def _curve(stored: Sequence[Completion], made: Sequence[Completion]) -> tuple[StepChange, ...]:
    """By step. A later attempt replaces, from its first step on, all that came before it."""
    firsts: dict[str, int] = {}
    for row in stored:
        firsts[row["attempt"]] = min(row["step"], firsts.get(row["attempt"], row["step"]))
    attempts = list(firsts)
    ends = {name: min((firsts[later] for later in attempts[place + 1 :]), default=None) for place, name in enumerate(attempts)}
    steps: dict[int, list[tuple[Completion, Completion]]] = {}
    for before, after in zip(stored, made, strict=True):
        end = ends[before["attempt"]]
        if end is None or before["step"] < end:
            steps.setdefault(before["step"], []).append((before, after))
    return tuple(_step(step, pairs) for step, pairs in sorted(steps.items()))


def _step(step: int, pairs: Sequence[tuple[Completion, Completion]]) -> StepChange:
    before, after = [one["reward"] for one, _ in pairs], [two["reward"] for _, two in pairs]
    groups: dict[int, list[int]] = {}
    for place, (one, _) in enumerate(pairs):
        groups.setdefault(one["group"], []).append(place)
    groups = {group: places for group, places in groups.items() if len(places) > 1}  # one completion is compared with none

    def silent(rewards: Sequence[float | None]) -> int:
        return sum(zero_signal_groups([rewards[place] for place in places], len(places))[0] for places in groups.values())

    return StepChange(
        step=step,
        completions=len(pairs),
        reward_before=_mean(before),
        reward_after=_mean(after),
        zero_signal_before=silent(before),
        zero_signal_after=silent(after),
        groups=len(groups),
        unknown_before=before.count(None),
        unknown_after=after.count(None),
    )


def _mean(rewards: Sequence[float | None]) -> float | None:
    known = [reward for reward in rewards if reward is not None]
    return sum(known) / len(known) if known else None
