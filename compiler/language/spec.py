"""The language of specs as models: closed keys, every field described. The reference and the JSON Schema are made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from compiler.language.rewards import ConditionReward, NamedGate, Reward
from stages.contracts.analysis_card import HealthRule
from stages.contracts.artifact import Section
from stages.contracts.claim import Claim
from stages.contracts.evaluation import Sampling
from stages.contracts.formulas import FormulaError, read_formula
from stages.contracts.model import EvaluationData, Model, TrainData
from stages.contracts.names import Slug, refused
from stages.contracts.page_card import Action, Contingency, DatedRemark, PageLayout, Question
from stages.contracts.preflight_card import PreflightSettings
from stages.contracts.pretrain_card import ArchitectureSettings, CorpusSettings, PretrainSettings
from stages.contracts.prompt import PromptFormat
from stages.contracts.retries import RetryPolicy
from stages.contracts.stops import Expectation, Stop
from stages.contracts.tracking import TrackingSettings

MAX_PROFILES = 100


def _readable(text: str) -> str:
    try:
        read_formula(text)
    except FormulaError as error:
        raise refused("E239", reason=str(error)) from None
    return text


Formula = Annotated[str, AfterValidator(_readable)]


class ConditionModel(Section):
    """What a condition may change of the model: the adapter. The base is shared, or runs could not be compared."""

    adapter: dict[str, Any] = Field({}, description="Keys of `model.adapter` that differ.")


class Data(Section):
    """Prompt sets."""

    train: TrainData = Field(description="Prompts to train on.")
    evaluation: EvaluationData | None = Field(None, description="Held-out prompts, the same for every run and the untrained model.")


class ConditionData(Section):
    """What a condition may change of the data: the training prompts. The evaluation is shared."""

    train: dict[str, Any] = Field({}, description="Keys of `data.train` that differ.")


class Condition(Section):
    """A named set of settings that is compared with others."""

    reward: ConditionReward | None = Field(
        None,
        description="A reward, {invert: name}, {random: bernoulli, p: 0.5} or {constant: 0}; none for `sft`.",
    )
    role: Literal["treatment", "control", "null_control"] = Field(
        description="null_control: without a signal; its movement is the noise floor."
    )
    hypothesis: str = Field("", max_length=2000, description="What its author expects it to do; shown beside what came out.")
    train: dict[str, Any] = Field(
        {}, description="Keys of `train` that differ. `algorithm` may change to or from `sft`; keys of both stay."
    )
    data: ConditionData = Field(default_factory=ConditionData, description="Training prompts that differ in this condition.")
    model: ConditionModel = Field(default_factory=ConditionModel, description="Adapter settings that differ in this condition.")


class Health(Section):
    """When a run counts."""

    profile: str | None = Field(None, description="Detectors with thresholds; not given: that of the algorithm, such as `grpo-default`.")
    detectors: dict[str, dict[str, Any]] = Field(
        {}, max_length=100, description="Settings that differ from the profile's, by detector; a detector it lacks is added."
    )
    gates: dict[str, HealthRule] = Field(
        {}, max_length=200, description="`nonfinite: not persistent`, `steps: complete`, or `metric: {below: x}`."
    )


class CombinedScore(Section):
    """A score made of the others: passes when the condition holds, fails when it does not, unknown while that hangs on an unknown."""

    when: str = Field(min_length=1, description="`truncated`, `empty`, `<score>.pass`, `<score>.fail`, `<score>.<mark>`, and, or, not.")


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


class Resources(Section):
    """What a run needs."""

    gpus: int = Field(0, ge=0, le=16, description="GPUs of one host that train a run, each with a batch of its own; 0 means CPU.")
    gpu_memory: int | None = Field(
        None,
        ge=0,
        json_schema_extra={"unit": "B"},
        description="Memory that a run needs on each GPU; `octavo doctor` checks it.",
    )
    hours: float | None = Field(None, gt=0, description="Expected hours of a run; for planning only.")


class PageUse(PageLayout):
    """How the page is laid out, and what is published beside it."""

    runs: bool = Field(
        False,
        description="A page for every run: its numbers, curves, health, attempts, completions and card. They are linked from the page of "
        "the experiment, and are neither in the navigation nor in the search.",
    )


class Spec(Section):
    """One experiment: `specs/<experiment>.yaml`."""

    title: str = Field(min_length=1, max_length=300, description="Title of the page.")
    owner: str = Field("", max_length=100, description="Who answers for the experiment.")
    tags: tuple[str, ...] = Field((), max_length=50, description="Words to find it by.")
    question: str = Field(min_length=1, max_length=5000, description="What the experiment is to decide.")
    use: tuple[Slug, ...] = Field((), max_length=20, description="Blocks of specs/_shared/ that lie below this spec; later ones win.")
    parent: str | None = Field(None, description="Experiment that this one changes; all it says is inherited, but for title and claims.")
    changes: dict[str, Any] = Field({}, description="The whole difference to the parent, as `train.learning_rate: 1.0e-6`; null removes.")
    compare: tuple[Slug, ...] = Field((), max_length=20, description="Experiments that this one is compared with, beside its parent.")
    hypothesis: str = Field("", max_length=5000, description="What the changes are expected to do, and why.")
    model: Model = Field(description="Base model and adapter.")
    data: Data = Field(description="Prompt sets.")
    prompt: PromptFormat | None = Field(None, description="What the model reads for a row; not given: the prompt of the row alone.")
    train: dict[str, Any] = Field(description="Settings of training; which keys there are is decided by `algorithm`.")
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(
        min_length=1, max_length=10_000, description="One run a condition and seed."
    )
    rewards: dict[Slug, Reward] = Field({}, max_length=500, description="Rewards by name.")
    conditions: dict[Slug, Condition] = Field(max_length=1_000, min_length=1, description="By name, in the order of tables and colours.")
    preflight: PreflightSettings = Field(default_factory=PreflightSettings, description="Checks on the untrained model.")
    health: Health = Field(default_factory=Health, description="When a run counts.")
    evaluation: Evaluation | None = Field(None, description="The shared evaluation.")
    metrics: dict[str, Formula] = Field(
        {},
        max_length=50,
        description="Metrics that the analysis derives from logged ones, as `reward_cv: reward_std / reward`; they retrain nothing.",
    )
    claims: tuple[Claim, ...] = Field((), max_length=1_000, description="What is to be decided, with rules written before the data.")
    questions: tuple[Question, ...] = Field((), max_length=200, description="Questions that the page answers with computed sections.")
    stop: Stop = Field(default_factory=Stop, description="When a run is stopped before its end. Null controls never are.")
    expect: tuple[Expectation, ...] = Field((), max_length=1_000, description="What metrics should come to along the way.")
    actions: tuple[Action, ...] = Field((), max_length=50, description="What to do next, in the author's judgement.")
    contingency: tuple[Contingency, ...] = Field((), max_length=50, description="What to do if things come out otherwise.")
    status: DatedRemark = Field(None, description="How it stands, in the author's words: {text: ..., on: a date, step: of the runs}.")
    decision: DatedRemark = Field(None, description="What the author has decided to do, in the same form.")
    retries: RetryPolicy | None = Field(None, description="What the next attempt of a failed run may change; not given: none is made.")
    tracking: TrackingSettings = Field(default_factory=TrackingSettings, description="Where runs are followed while they train.")
    resources: Resources = Field(default_factory=Resources, description="What a run needs.")
    page: PageUse = Field(default_factory=PageUse, description="How the page is laid out, and what is published beside it.")
    evidence: bool = Field(
        False, description="In a profile: its claims are decided and checked like the experiment's, and its page counts."
    )
    profiles: dict[Slug, dict[str, Any]] = Field({}, max_length=MAX_PROFILES, description="Variants by name: keys of the spec that differ.")


class ModelFile(Section):
    """A base model that the repository makes itself: `specs/_models/<name>.yaml`."""

    corpus: CorpusSettings = Field(description="Generated pairs to learn from.")
    architecture: ArchitectureSettings = Field(
        default_factory=lambda: ArchitectureSettings.model_validate({}), description="Shape of the decoder."
    )
    pretrain: PretrainSettings = Field(description="Supervised pre-training.")
