"""A gate that is ready to judge. Whatever its plug-in does, there is one judgement an answer, with a score in 0..1 or unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stages.contracts.plugin import GATES, Answer, Judgement, load, reads
from stages.contracts.reward_card import GateCard

REASON_CHARS = 300


@dataclass(frozen=True)
class Combined:
    """Rewards of a batch, one an answer; per gate: what it said (None = not reached) and the wall seconds it took."""

    rewards: list[float | None]
    judgements: dict[str, list[Judgement | None]]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Gate:
    """A card with its plug-in and its settings."""

    card: GateCard
    plugin: Any
    settings: Any

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        """One judgement an answer, whatever the plug-in does: an exception or a wrong length is unknown for the whole batch. Where
        verifiers run model code, an exception may be theirs; elsewhere it is the reward's."""
        try:
            found = list(self.plugin.judge(self.settings, answers))
        except Exception as error:
            said = unknown(f"the gate broke: {type(error).__name__}: {error}")
            return [said if hasattr(self.plugin, "tier") else replace(said, broken=True)] * len(answers)
        if len(found) != len(answers):
            return [_at_fault(f"the gate gave {len(found)} judgements for {len(answers)} completions")] * len(answers)
        return [_checked(one) for one in found]


def told(
    gate: Gate, before: Sequence[Gate], judgements: Mapping[str, Sequence[Judgement | None]], answers: Sequence[Answer]
) -> list[Answer]:
    """The answers, each with what the gates before said of it, where this gate reads that. `judgements` has one entry an answer."""
    kinds = reads(gate.card.kind)
    sources = {one.card.kind: judgements[one.card.name] for one in before if one.card.kind in kinds}
    if not sources:
        return list(answers)
    said = [{kind: found for kind, all_of in sources.items() if (found := all_of[index]) is not None} for index in range(len(answers))]
    return [replace(answer, said=heard) for answer, heard in zip(answers, said, strict=True)]


def ready(card: GateCard) -> Gate:
    """Load a card's plug-in. Raises ValueError for a reward that is no finite number, KeyError for an unknown kind."""
    for value in (card.on_pass, card.on_fail):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"gate {card.name!r} declares the reward {value}, which is no finite number")
    plugin = load(GATES, card.kind)
    return Gate(card, plugin, plugin.Settings.model_validate(card.settings))


def unknown(reason: str) -> Judgement:
    """A judgement that knows nothing, for a reason in valid UTF-8."""
    return Judgement("unknown", None, reason.encode("utf-8", "backslashreplace").decode()[:REASON_CHARS])


def _at_fault(reason: str) -> Judgement:
    return replace(unknown(reason), broken=True)


def _checked(judgement: Any) -> Judgement:
    if not isinstance(judgement, Judgement):
        return _at_fault(f"the gate gave {type(judgement).__name__} instead of a judgement")
    score = judgement.score
    if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
        return _at_fault(f"the gate gave the score {score}, which is not in 0..1")
    marks = judgement.marks
    if not isinstance(marks, Mapping) or not all(isinstance(name, str) and isinstance(mark, bool) for name, mark in marks.items()):
        return _at_fault("the gate gave marks that are neither true nor false")
    return judgement
