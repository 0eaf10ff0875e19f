"""Penalties: conditions in three values over one answer's judgements. A condition that is not known makes the reward None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stages.contracts.plugin import Answer, Judgement
from stages.contracts.reward_card import AllCard, AnyCard, ConditionCard, MarkCard, PenaltyCard, SignalCard, StatusCard

Said = Mapping[str, Judgement | None]


def holds(condition: ConditionCard, answer: Answer, said: Said) -> bool | None:
    """Whether a condition holds; None when that hangs on a gate that does not know. `said`: by gate, None = not reached."""
    match condition:
        case AllCard():
            found = [holds(one, answer, said) for one in condition.all]
            return False if False in found else None if None in found else True
        case AnyCard():
            found = [holds(one, answer, said) for one in condition.any]
            return True if True in found else None if None in found else False
        case SignalCard():
            return (answer.truncated if condition.signal == "truncated" else not answer.text.strip()) == condition.holds
        case StatusCard():
            judgement = said[condition.gate]
            if judgement is not None and judgement.status == "unknown":
                return None
            return ((judgement.status if judgement else "not_reached") == condition.status) == condition.holds
        case MarkCard():
            return _mark(condition, said[condition.gate])


def _mark(condition: MarkCard, judgement: Judgement | None) -> bool | None:
    if judgement is not None and condition.mark not in judgement.marks and judgement.status == "unknown":
        return None
    return (judgement is not None and judgement.marks.get(condition.mark, False)) == condition.holds


def penalised(reward: float | None, penalties: Sequence[PenaltyCard], answer: Answer, said: Said) -> tuple[float | None, list[bool | None]]:
    """The reward after all penalties in order, and which of them held."""
    found = [holds(penalty.when, answer, said) for penalty in penalties]
    for penalty, held in zip(penalties, found, strict=True):
        if reward is None or held is None:
            reward = None
        elif held:
            reward = penalty.set if penalty.set is not None else reward * (penalty.factor or 0.0)
    return reward, found


def gates_of(condition: ConditionCard) -> list[tuple[str, str | None]]:
    """(gate, mark or None) of every leaf that asks for a gate."""
    match condition:
        case AllCard():
            return [pair for one in condition.all for pair in gates_of(one)]
        case AnyCard():
            return [pair for one in condition.any for pair in gates_of(one)]
        case SignalCard():
            return []
        case StatusCard():
            return [(condition.gate, None)]
        case MarkCard():
            return [(condition.gate, condition.mark)]
