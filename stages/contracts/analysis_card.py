"""Cards of the analysis stages: screen (health), conclude (findings and verdicts), draw (figures)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from stages.contracts.artifact import Artifact, Frozen, Section, later
from stages.contracts.claim import ClaimRule
from stages.contracts.code import Version
from stages.contracts.names import OneBound
from stages.contracts.reward import Phase
from stages.contracts.stops import Expectation, StopRules

Role = Literal["treatment", "control", "null_control"]
Asked = Literal["anomalies", "completion", "signal"]
"""Sections whose answers need findings that nothing else on a page needs."""


class ConditionCard(Section):
    """A condition as analysis sees it. `reward` is the composed reward's name; conditions with equal names share a reward."""

    name: str
    role: Role
    reward: str
    gates: tuple[str, ...]
    """Gates of its reward, in order: the funnel."""
    supervised: bool = later(False)
    """Trained on gold answers: nothing was sampled, and nothing rewarded."""


class RunRef(Frozen):
    """A run: `runs/<experiment>/<name>/`."""

    name: str
    condition: str
    seed: int
    target_steps: int
    so_far: int | None = later(None)
    """Steps that are done, on the cards of a page that is written while runs go on; null on all others."""

    @property
    def span(self) -> int:
        """Steps that windows are shares of: the target, or those that a run which goes on has done so far."""
        return self.so_far or self.target_steps


class DetectorCard(Frozen):
    kind: str
    settings: dict[str, Any]


class ConditionProfile(Frozen):
    """The health profile of one condition, where it is not that of the others."""

    condition: str
    profile: str
    detectors: tuple[DetectorCard, ...]


class Bound(OneBound):
    """A bound on a metric's mean over the final window."""

    except_null_controls: bool = Field(False, description="Do not apply to null controls.")


def _health_form(value: Any) -> str:
    return "(bound)" if isinstance(value, dict | Bound) else "(words)"


HealthRule = Annotated[
    Annotated[Literal["not persistent", "complete"], Tag("(words)")] | Annotated[Bound, Tag("(bound)")], Discriminator(_health_form)
]
"""`nonfinite: not persistent`, `steps: complete`, or a bound on a metric's mean over the final window."""


class Windows(Frozen):
    """Shares of a run's target steps: initial = the first, final = the last."""

    initial: float = 0.1
    final: float = 0.1


class AnalysisCard(Section, Artifact):
    """What the cards of the analysis and of the page say of an experiment."""

    experiment: str
    conditions: tuple[ConditionCard, ...]
    runs: tuple[RunRef, ...]
    derived: dict[str, str] = {}
    """Formulas over logged metrics by the name of the metric that they make (stages/contracts/formulas.py)."""
    code: dict[str, Version]

    @property
    def is_open(self) -> bool:
        """Whether this is a card of a page that is written while runs go on, so that nothing is decided yet."""
        return any(run.so_far is not None for run in self.runs)


class ScreenCard(AnalysisCard):
    """`analysis/screen.card.json`."""

    SCHEMA: ClassVar[str] = "octavo.screen_card/1"

    profile: str
    """Name of the health profile."""
    detectors: tuple[DetectorCard, ...]
    others: tuple[ConditionProfile, ...] = ()
    """Conditions that another algorithm trains have a profile of their own."""
    gates: dict[str, HealthRule]
    """As the spec writes them, by name; of a bound that is its metric."""
    claimed: tuple[str, ...] = later(())
    """Logged and derived metrics that claims rest on: a run in which one of them breaks for good does not count either."""
    windows: Windows


class OtherCondition(Frozen):
    """A condition of another experiment that claims are held against."""

    experiment: str
    condition: ConditionCard
    """Its reward's name begins with `<experiment>:` where the reward is another one than that of the own condition."""
    runs: tuple[RunRef, ...]
    evaluation: tuple[str, ...]
    """Scores of its shared evaluation that mean the same here."""
    imported: bool = later(False)

    @property
    def name(self) -> str:
        """As findings name it."""
        return f"{self.experiment}:{self.condition.name}"


class ConcludeCard(AnalysisCard):
    """`analysis/conclude.card.json`."""

    SCHEMA: ClassVar[str] = "octavo.conclude_card/1"

    evaluation: tuple[str, ...]
    """Names of the shared evaluation's scores."""
    metrics: tuple[str, ...]
    """History metrics that get findings for each run and condition, besides those the claims name."""
    claims: tuple[ClaimRule, ...]
    windows: Windows
    level: float = 0.95
    points: tuple[str, ...] = later(())
    """History metrics that get findings at 25, 50 and 75% of training too."""
    asked: tuple[Asked, ...] = ()
    """Sections that answer questions on the page and need findings of their own: onsets of detectors, runs that did all their steps."""
    expectations: tuple[Expectation, ...] = ()
    """With names and conditions filled in."""
    elsewhere: tuple[OtherCondition, ...] = later(())
    """Conditions of other experiments that claims are held against."""
    stops: dict[str, StopRules] = {}
    """Stop rules by condition; conditions without rules have no entry."""
    weights: dict[str, tuple[Phase, ...]] = {}
    """Of conditions with a weighted reward: the weights of its gates from each share of training on, the first from 0."""
    reward_ranges: dict[str, tuple[float, float]] = {}
    """By condition the lowest and the highest reward, where that is not 0..1."""


class DrawCard(AnalysisCard):
    """`analysis/draw.card.json`. Colours follow the order of conditions."""

    SCHEMA: ClassVar[str] = "octavo.draw_card/1"

    evaluation: tuple[str, ...]
    curves: tuple[str, ...]
    """History metrics drawn as small multiples, one panel a condition or one a metric."""
