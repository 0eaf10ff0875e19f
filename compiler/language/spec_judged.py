"""What a spec says of judging runs: health and the shared evaluation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from compiler.language.spec_rewards import NamedGate
from stages.contracts.analysis_card import HealthRule
from stages.contracts.artifact import Section
from stages.contracts.evaluation import Sampling
from stages.contracts.names import Slug


class Health(Section):
    """When a run counts."""

    profile: str | None = Field(
        None, description="Detectors with their thresholds, by name; not given: that of the algorithm, such as `grpo-default`."
    )
    detectors: dict[str, dict[str, Any]] = Field(
        {}, max_length=100, description="Settings of detectors that differ from the profile's, by detector; a detector it lacks is added."
    )
    gates: dict[str, HealthRule] = Field(
        {}, max_length=200, description="`nonfinite: not persistent`, `steps: complete`, or a metric with {below: x} or {above: x}."
    )


class CombinedScore(Section):
    """A score made of the others: passes when the condition holds, fails when it does not, unknown while that hangs on an unknown."""

    when: str = Field(
        min_length=1, description="Words `truncated`, `empty`, `<score>.pass`, `<score>.fail`, `<score>.<mark>`, and, or, not."
    )


def _score_form(value: Any) -> str:
    if isinstance(value, str):
        return "(name)"
    inner = next(iter(value.values()), None) if isinstance(value, dict) and len(value) == 1 else None
    combined = isinstance(inner, CombinedScore) or (isinstance(inner, dict) and "when" in inner and "kind" not in inner)
    return "(combined)" if combined else "(gate)"


ScoreUse = Annotated[
    Annotated[Slug, Tag("(name)")] | Annotated[NamedGate, Tag("(gate)")] | Annotated[dict[Slug, CombinedScore], Tag("(combined)")],
    Discriminator(_score_form),
]


class Evaluation(Sampling):
    """The shared yardstick: same prompts, same scores, for every run and the untrained model."""

    every: Literal["end"] = Field("end", description="When: after training.")
    scores: tuple[ScoreUse, ...] = Field(
        max_length=100,
        min_length=1,
        description="Names of gates of this spec's rewards, gates of their own, or `name: {when: ...}` over the other scores.",
    )
