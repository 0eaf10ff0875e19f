"""What a spec says of judging runs: preflight, health, the shared evaluation, and claims."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from compiler.language.spec_part import Part
from compiler.language.spec_rewards import NamedGate
from stages.contracts.names import Slug, fault


class Below(Part):
    """An upper bound."""

    below: float = Field(ge=0, le=1, json_schema_extra={"unit": "share"}, description="The share must lie below this.")


class Preflight(Part):
    """Each condition's reward on completions of the untrained model, before any training. Null controls are never refused."""

    completions: int = Field(256, ge=2, le=1_000_000, description="Completions per condition.")
    zero_signal_share: Below = Field(Below(below=0.6), description="Refuse a condition when a larger share of groups has no reward spread.")
    truncated: Below = Field(Below(below=0.3), description="Refuse a condition when a larger share of completions is cut.")


class Bound(Part):
    """A bound on a metric's mean over the final window: exactly one of `below` and `above`."""

    below: float | None = Field(None, json_schema_extra={"unit": "share"}, description="The mean must lie below this.")
    above: float | None = Field(None, json_schema_extra={"unit": "share"}, description="The mean must lie above this.")
    except_null_controls: bool = Field(False, description="Do not apply to null controls.")

    @model_validator(mode="after")
    def _one(self) -> Bound:
        if (self.below is None) == (self.above is None):
            raise fault(
                "E209",
                "a bound is exactly one of `below` and `above`",
                "two bounds would be two gates, none would decide nothing",
                "{below: 0.5}",
            )
        return self


def _health_form(value: Any) -> str:
    return "(bound)" if isinstance(value, dict | Bound) else "(words)"


HealthRule = Annotated[
    Annotated[Literal["not persistent", "complete"], Tag("(words)")] | Annotated[Bound, Tag("(bound)")], Discriminator(_health_form)
]


class Health(Part):
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


class CombinedScore(Part):
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


class Evaluation(Part):
    """The shared yardstick: same prompts, same scores, for every run and the untrained model."""

    every: Literal["end"] = Field("end", description="When: after training.")
    scores: tuple[ScoreUse, ...] = Field(
        max_length=100,
        min_length=1,
        description="Names of gates of this spec's rewards, gates of their own, or `name: {when: ...}` over the other scores.",
    )
    samples: int = Field(1, ge=1, le=1000, description="Completions per prompt.")
    temperature: float = Field(1.0, gt=0, le=10, description="Sampling temperature.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling mass.")
    max_completion_length: int | None = Field(None, ge=1, description="Longest completion, in tokens; not given: that of `train`.")


class ContrastUse(Part):
    """`condition` minus `against`."""

    condition: Slug = Field(description="Condition whose change is claimed.")
    against: Slug = Field(description="Condition it is compared with.")


class Needs(Part):
    """What a claim needs to be decided; with less it is void."""

    seeds: int = Field(3, ge=1, description="Seeds in each condition.")
    health: Literal["included", "any"] = Field("included", description="included: only runs that pass the health gates count.")


class Claim(Part):
    """A sentence with its rule, written before the data."""

    id: Slug = Field(description="Name of the claim; findings and pages refer to it.")
    says: str = Field(min_length=1, max_length=2000, description="The sentence.")
    metric: str = Field(
        description="`evaluation.<score>.pass_share`, a history metric such as `zero_signal_share`, `gate.<gate>.<measure>` or "
        "`penalty.<penalty>.share`."
    )
    contrast: ContrastUse | None = Field(None, description="Two conditions; this or `condition`.")
    condition: Slug | None = Field(None, description="One condition; this or `contrast`.")
    statistic: Literal["final", "change"] = Field(
        "final", description="final: the last tenth of steps, or the end evaluation. change: final minus initial or untrained."
    )
    above: float | None = Field(
        None, ge=-1e12, le=1e12, json_schema_extra={"unit": "share"}, description="The claim holds when the interval lies above this."
    )
    below: float | None = Field(
        None, ge=-1e12, le=1e12, json_schema_extra={"unit": "share"}, description="The claim holds when the interval lies below this."
    )
    needs: Needs = Field(default_factory=Needs, description="What the claim needs to be decided.")

    @model_validator(mode="after")
    def _one_of_each(self) -> Claim:
        if (self.above is None) == (self.below is None):
            raise fault(
                "E209", "a claim has exactly one of `above` and `below`", "the margin and its direction decide the verdict", "above: 0.05"
            )
        if (self.contrast is None) == (self.condition is None):
            raise fault(
                "E209",
                "a claim has exactly one of `contrast` and `condition`",
                "the verdict is about a difference or about one condition",
                "contrast: {condition: shaped, against: zero}",
            )
        return self
