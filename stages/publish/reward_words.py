"""How the gates of a reward combine, in words: what a gate decides, penalties, phases of the curriculum."""

from __future__ import annotations

from collections.abc import Iterator

from stages.contracts.reward_card import AllCard, AnyCard, ConditionCard, GateCard, MarkCard, PenaltyCard, RewardCard, SignalCard
from stages.publish.numbers import percent, setting


def decides(reward: RewardCard, gate: GateCard) -> str:
    """What a gate does to the reward."""
    if reward.combine == "weighted":
        share = f"{percent(gate.weight or 0.0)} of the reward" + (" at first" if reward.curriculum else "")
        return share + (f"; asked only where {gate.needs} passed" if gate.needs else "")
    parts = [f"pass gives {setting(gate.on_pass)}"] if gate.on_pass is not None else []
    parts += [f"fail gives {setting(gate.on_fail)}"] if gate.on_fail is not None else []
    if gate.on_pass is None or gate.on_fail is None:
        parts.append("otherwise its own score is the reward" if gate is reward.gates[-1] else "otherwise the next gate is asked")
    return "; ".join(parts)


def after(reward: RewardCard) -> Iterator[str]:
    """One sentence a penalty and a phase, in the order in which they apply."""
    for phase in reward.curriculum:
        weights = ", ".join(f"{name} {percent(weight)}" for name, weight in phase.weights.items())
        yield f"From {percent(phase.from_share)} of training on: {weights}."
    for penalty in reward.penalties:
        yield f"Penalty {penalty.name}: where {when(penalty.when)}, {_becomes(penalty)}."
    if reward.cap is not None:
        yield f"No reward is above {setting(reward.cap)}."


def when(condition: ConditionCard, inside: bool = False) -> str:
    """A condition as specs write it."""
    match condition:
        case AllCard():
            joined = " and ".join(when(one, inside=True) for one in condition.all)
        case AnyCard():
            joined = " or ".join(when(one, inside=True) for one in condition.any)
        case SignalCard():
            return condition.signal if condition.holds else f"not {condition.signal}"
        case MarkCard():
            return f"{'' if condition.holds else 'not '}{condition.gate}.{condition.mark}"
        case _:
            return f"{'' if condition.holds else 'not '}{condition.gate}.{condition.status}"
    return f"({joined})" if inside else joined


def _becomes(penalty: PenaltyCard) -> str:
    if penalty.set is not None:
        return f"the reward becomes {setting(penalty.set)}"
    return f"the reward is multiplied by {setting(penalty.factor)}"
