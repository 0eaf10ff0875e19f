"""The shared evaluation: same prompts, same scores, for every run and the untrained model."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.code import Version
from stages.contracts.expressions import Expression
from stages.contracts.model_card import DataCard, ModelCard
from stages.contracts.reward_card import GateCard


class CombinedCard(Frozen):
    """A score made of others: pass when `when` holds over their judgements, fail when it does not, unknown when it hangs on an unknown."""

    name: str
    when: Expression


class EvaluateCard(Artifact):
    """`runs/<experiment>/analysis/evaluate.card.json`. Each gate scores every completion by itself, not as a composed reward."""

    SCHEMA: ClassVar[str] = "octavo.evaluate_card/1"

    experiment: str
    runs: tuple[str, ...]
    model: ModelCard
    data: DataCard
    scores: tuple[GateCard, ...]
    combined: tuple[CombinedCard, ...] = Field((), exclude_if=lambda combined: not combined)
    """Scores made of `scores`; left out when there are none, so that older cards keep their bytes."""
    samples: int
    temperature: float
    top_p: float
    max_completion_length: int
    seed: int = 0
    device: Literal["cpu", "cuda"]
    versions: dict[str, str]
    code: dict[str, Version]
