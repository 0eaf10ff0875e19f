"""The shared evaluation: same prompts, same scores, for every run and the untrained model."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from stages.contracts.answer import AnswerRule
from stages.contracts.artifact import Artifact, Frozen, Section
from stages.contracts.code import Version
from stages.contracts.expressions import Expression
from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.reward import Gate


class CombinedCard(Frozen):
    """A score made of others: pass when `when` holds over their judgements, fail when it does not, unknown when it hangs on an unknown."""

    name: str
    when: Expression


class Sampling(Section):
    """How the completions of the shared evaluation are sampled and read."""

    samples: int = Field(1, ge=1, le=1000, description="Completions per prompt.")
    temperature: float = Field(1.0, gt=0, le=10, description="Sampling temperature.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling mass.")
    max_completion_length: int | None = Field(None, ge=1, description="Longest completion, in tokens; not given: that of `train`.")
    answer: AnswerRule | None = Field(
        None, description="Where the answer stands that the scores judge; not given: as the rewards say whose gates are the scores."
    )


class EvaluateCard(Sampling, Artifact):
    """`runs/<experiment>/analysis/evaluate.card.json`. Each gate scores every completion by itself, not as a composed reward."""

    SCHEMA: ClassVar[str] = "octavo.evaluate_card/1"

    experiment: str
    runs: tuple[str, ...]
    model: ModelRef
    data: DatasetRef
    scores: tuple[Gate, ...]
    combined: tuple[CombinedCard, ...] = ()
    """Scores made of `scores`."""
    max_completion_length: int
    seed: int = 0
    device: Literal["cpu", "cuda"]
    versions: dict[str, str]
    code: dict[str, Version]

    @property
    def names(self) -> tuple[str, ...]:
        """Of all scores."""
        return (*(gate.name for gate in self.scores), *(combined.name for combined in self.combined))
