"""A gate that is ready to judge. Whatever its plug-in does, there is one judgement an answer, with a score in 0..1 or unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stages.contracts.plugin import GATES, Answer, Judgement, load, reads
from stages.contracts.reward import Gate

REASON_CHARS = 300


@dataclass(frozen=True)
class ReadyGate:
    """A card with its plug-in and its settings."""

    card: Gate
    plugin: Any
    settings: Any

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        """One judgement an answer, whatever the plug-in does: an exception or a wrong length is unknown for the whole batch. Where
        verifiers run model code, an exception may be theirs; elsewhere it is the reward's."""
        try:
            judgements = list(self.plugin.judge(self.settings, answers))
        except Exception as error:
            reason = f"the gate broke: {type(error).__name__}: {error}"
            return [unknown(reason, broken=not hasattr(self.plugin, "tier"))] * len(answers)
        if len(judgements) != len(answers):
            reason = f"the gate gave {len(judgements)} judgements for {len(answers)} completions"
            return [unknown(reason, broken=True)] * len(answers)
        return [_checked(judgement) for judgement in judgements]

    def informed(
        self, answers: Sequence[Answer], before: Sequence[ReadyGate], judgements: Mapping[str, Sequence[Judgement | None]]
    ) -> list[Answer]:
        """The answers, each with the judgements of earlier gates that this gate reads."""
        kinds = reads(self.card.kind)
        sources = {gate.card.kind: judgements[gate.card.name] for gate in before if gate.card.kind in kinds}
        if not sources:
            return list(answers)
        return [
            replace(answer, earlier={kind: judgement for kind, column in sources.items() if (judgement := column[index]) is not None})
            for index, answer in enumerate(answers)
        ]


def ready(card: Gate) -> ReadyGate:
    """Load a card's plug-in. Raises ValueError for a reward that is no finite number, KeyError for an unknown kind."""
    for value in (card.on_pass, card.on_fail):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"gate {card.name!r} declares the reward {value}, which is no finite number")
    plugin = load(GATES, card.kind)
    return ReadyGate(card, plugin, plugin.Settings.model_validate(card.settings))


def unknown(reason: str, broken: bool = False) -> Judgement:
    """A judgement that knows nothing, for a reason in valid UTF-8."""
    return Judgement("unknown", None, reason.encode("utf-8", "backslashreplace").decode()[:REASON_CHARS], broken=broken)


def _checked(judgement: Any) -> Judgement:
    if not isinstance(judgement, Judgement):
        return unknown(f"the gate gave {type(judgement).__name__} instead of a judgement", broken=True)
    score, marks = judgement.score, judgement.marks
    if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
        return unknown(f"the gate gave the score {score}, which is not in 0..1", broken=True)
    if not isinstance(marks, Mapping) or not all(isinstance(name, str) and isinstance(mark, bool) for name, mark in marks.items()):
        return unknown("the gate gave marks that are neither true nor false", broken=True)
    return judgement
