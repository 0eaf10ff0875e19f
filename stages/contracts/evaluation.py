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


def evaluation_differences(one: EvaluateCard, other: EvaluateCard, score: str) -> list[str]:
    """In what the evaluations of a score differ: prompts, sampling, or the score's own rule. Empty: the numbers are comparable."""
    fields = [*Sampling.model_fields, "seed"]
    differing = [field for field in fields if getattr(one, field) != getattr(other, field)]
    differing += ["data.evaluation"] if one.data != other.data else []
    rules = [([gate for gate in card.scores if gate.name == score], _combined(card, score)) for card in (one, other)]
    return [*differing, *([score] if rules[0] != rules[1] else [])]


def same_scores(one: EvaluateCard | None, other: EvaluateCard | None) -> tuple[str, ...]:
    """Scores that two experiments evaluate alike."""
    if one is None or other is None:
        return ()
    return tuple(score for score in one.names if score in other.names and not evaluation_differences(one, other, score))


def _combined(card: EvaluateCard, score: str) -> object:
    """The rule of a combined score, with the scores that it may rest on."""
    rules = [rule for rule in card.combined if rule.name == score]
    return (rules, card.scores) if rules else None
