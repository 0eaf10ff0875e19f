"""Claims: sentences with their rules, written before the data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from stages.contracts.artifact import Section
from stages.contracts.names import ExperimentName, OneBound, Slug, exactly_one


class Elsewhere(Section):
    """A condition of another experiment."""

    experiment: ExperimentName = Field(description="The other experiment; of a profile its profile of the same name is meant.")
    condition: Slug = Field(description="Its condition.")

    @property
    def name(self) -> str:
        """As findings name it: `length-ppo:short`."""
        return f"{self.experiment}:{self.condition}"


def _against_form(value: Any) -> str:
    return "(elsewhere)" if isinstance(value, dict | Elsewhere) else "(name)"


Against = Annotated[Annotated[Slug, Tag("(name)")] | Annotated[Elsewhere, Tag("(elsewhere)")], Discriminator(_against_form)]


class Contrast(Section):
    """`condition` minus `against`."""

    condition: Slug = Field(description="Condition whose change is claimed.")
    against: Against = Field(description="Condition it is compared with, or {experiment: name, condition: name} of another experiment.")


class Needs(Section):
    """What a claim needs to be decided; with less it is void."""

    seeds: int = Field(3, ge=1, description="Seeds in each condition.")
    health: Literal["included", "any"] = Field("included", description="included: only runs that pass the health gates count.")


class ClaimRule(OneBound):
    """The rule of a claim, as the analysis has it: without its sentence, so that wording never recomputes anything."""

    id: Slug = Field(description="Name of the claim; findings and pages refer to it.")
    metric: str = Field(
        description="`evaluation.<score>.pass_share`, a history metric such as `zero_signal_share`, `gate.<gate>.<measure>` or "
        "`penalty.<penalty>.share`."
    )
    contrast: Contrast | None = Field(None, description="Two conditions; this or `condition`.")
    condition: Slug | None = Field(None, description="One condition; this or `contrast`.")
    statistic: Literal["final", "change"] = Field(
        "final", description="final: the last tenth of steps, or the evaluation. change: final minus initial."
    )
    needs: Needs = Field(default_factory=Needs, description="What the claim needs to be decided.")

    _one_subject = exactly_one(
        "contrast",
        "condition",
        says="a claim has",
        why="the verdict is about a difference or about one condition",
        fix="contrast: {condition: shaped, against: zero}",
    )

    @property
    def margin(self) -> float:
        return self.bound

    @property
    def sides(self) -> tuple[str, ...]:
        """The condition, or the two that are compared; that of another experiment as `<experiment>:<condition>`."""
        if self.contrast is None:
            return (self.condition or "",)
        return (self.contrast.condition, self.elsewhere.name if self.elsewhere else str(self.contrast.against))

    @property
    def elsewhere(self) -> Elsewhere | None:
        """The condition of another experiment that it is compared with."""
        return self.contrast.against if self.contrast and isinstance(self.contrast.against, Elsewhere) else None

    @property
    def included_only(self) -> bool:
        """Only runs that pass the health gates count."""
        return self.needs.health == "included"


class VerdictWords(Section):
    """The author's own sentence for each verdict, written before the data. `{{ finding id }}` stands for a number, as in the
    interpretation; a verdict without a sentence gets a computed one."""

    supported: str = Field("", max_length=2000, description="Where the claim is supported.")
    refuted: str = Field("", max_length=2000, description="Where it is refuted.")
    inconclusive: str = Field("", max_length=2000, description="Where the data do not decide it.")
    void: str = Field("", max_length=2000, description="Where it cannot be decided.")


class Claim(ClaimRule):
    """A sentence with its rule, written before the data."""

    says: str = Field(min_length=1, max_length=2000, description="The sentence.")
    answers: VerdictWords = Field(VerdictWords(), description="What the page answers, for each verdict.")

    @property
    def rule(self) -> ClaimRule:
        return ClaimRule(**{key: getattr(self, key) for key in ClaimRule.model_fields})
