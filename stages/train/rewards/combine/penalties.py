"""Penalties: conditions in three values over one answer's judgements. A condition that is not known makes the reward None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stages.contracts.expressions import Expression, Leaf, Mark, Signal, Status, truth
from stages.contracts.plugin import Answer, Judgement
from stages.contracts.reward import Penalty

Judgements = Mapping[str, Judgement | None]


def holds(condition: Expression, answer: Answer, judgements: Judgements) -> bool | None:
    """Whether a condition holds; None when that hangs on a gate that does not know. `judgements`: by gate, None = not reached."""
    return truth(condition, lambda leaf: _leaf(leaf, answer, judgements))


def _leaf(leaf: Leaf, answer: Answer, judgements: Judgements) -> bool | None:
    if isinstance(leaf, Signal):
        return (answer.truncated if leaf.signal == "truncated" else not answer.text.strip()) == leaf.holds
    assert isinstance(leaf, Mark | Status)  # metrics are not known of a single completion
    judgement = judgements[leaf.gate]
    unknown = judgement is not None and judgement.status == "unknown"
    if isinstance(leaf, Status):
        return None if unknown else ((judgement.status if judgement else "not_reached") == leaf.status) == leaf.holds
    if judgement is not None and unknown and leaf.mark not in judgement.marks:
        return None
    return (judgement is not None and judgement.marks.get(leaf.mark, False)) == leaf.holds


def penalised(
    reward: float | None, penalties: Sequence[Penalty], answer: Answer, judgements: Judgements
) -> tuple[float | None, list[bool | None]]:
    """The reward after all penalties in order, and which of them held."""
    applied = [holds(penalty.when, answer, judgements) for penalty in penalties]
    for penalty, held in zip(penalties, applied, strict=True):
        if reward is None or held is None:
            reward = None
        elif held:
            reward = penalty.set if penalty.set is not None else reward * (penalty.factor or 0.0)
    return reward, applied
