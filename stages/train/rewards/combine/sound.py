"""What a reward card must fulfil beyond its types. The compiler says the same with places and codes; a stage trusts no card."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stages.contracts.expressions import gates
from stages.contracts.plugin import marks, reads
from stages.contracts.reward_card import RewardCard

TOLERANCE = 1e-9
"""By how much weights may miss the sum of 1."""


def check(reward: RewardCard) -> None:
    """Raises ValueError for a card that no compiler writes."""
    names = [gate.name for gate in reward.gates]
    if len(set(names)) != len(names):
        raise ValueError(f"reward {reward.name!r} has two gates of one name: {names}")
    if reward.combine == "weighted":
        _weighted(reward, names)
    elif reward.curriculum or any(gate.weight is not None or gate.needs is not None for gate in reward.gates):
        raise ValueError(f"reward {reward.name!r}: weight, needs and curriculum belong to `combine: weighted`")
    for place, gate in enumerate(reward.gates):
        kinds = reads(gate.kind)
        if kinds and not any(one.kind in kinds for one in reward.gates[:place]):
            raise ValueError(f"gate {gate.name!r} reads the verdict of a gate of kind {' or '.join(kinds)}, and none stands before it")
    _penalties(reward)


def _weighted(reward: RewardCard, names: list[str]) -> None:
    for place, gate in enumerate(reward.gates):
        if gate.on_pass is not None or gate.on_fail is not None:
            raise ValueError(f"gate {gate.name!r}: on_pass and on_fail belong to `combine: first_decides`")
        if gate.needs is not None and gate.needs not in names[:place]:
            raise ValueError(f"gate {gate.name!r} needs {gate.needs!r}, which is no earlier gate")
    _weights(f"reward {reward.name!r}", {gate.name: gate.weight for gate in reward.gates}, names)
    begun = -1.0
    for phase in reward.curriculum:
        if phase.from_share <= begun:
            raise ValueError(f"reward {reward.name!r}: phases of the curriculum do not rise at {phase.from_share:g}")
        begun = phase.from_share
        _weights(f"reward {reward.name!r}, phase from {begun:g}", phase.weights, names)


def _weights(place: str, weights: Mapping[str, float | None], names: list[str]) -> None:
    if set(weights) != set(names):
        raise ValueError(f"{place}: weights of {sorted(weights)} for the gates {sorted(names)}")
    numbers = [weight for weight in weights.values() if weight is not None]
    if len(numbers) < len(names) or not all(0 <= number <= 1 for number in numbers):
        raise ValueError(f"{place}: every gate needs a weight from 0 to 1")
    if not math.isclose(math.fsum(numbers), 1.0, abs_tol=TOLERANCE, rel_tol=0):
        raise ValueError(f"{place}: weights sum to {math.fsum(numbers):g}, not 1")


def _penalties(reward: RewardCard) -> None:
    kinds = {gate.name: gate.kind for gate in reward.gates}
    if len({penalty.name for penalty in reward.penalties}) != len(reward.penalties):
        raise ValueError(f"reward {reward.name!r} has two penalties of one name")
    for penalty in reward.penalties:
        for gate, mark in sorted(gates(penalty.when), key=str):
            if gate not in kinds:
                raise ValueError(f"penalty {penalty.name!r} asks for {gate!r}, which is no gate")
            if mark is not None and mark not in marks(kinds[gate]):
                raise ValueError(f"penalty {penalty.name!r} asks for {gate}.{mark}, which gates of kind {kinds[gate]!r} do not see")
