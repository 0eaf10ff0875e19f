"""The language of specs as models: closed keys, every field described. The reference and the JSON Schema are made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from compiler.names import HubId, ProjectPath, Slug, fault
from compiler.spec_part import Part
from compiler.spec_retries import Retries
from compiler.spec_rewards import NamedGate, Reward, RewardUse
from compiler.spec_rules import Expectation, Stop
from compiler.spec_words import Action, Contingency, QuestionUse
from stages.contracts.pretrain_card import ArchitectureSettings, CorpusSettings, PretrainSettings

MAX_PROFILES = 100


class Adapter(Part):
    """LoRA adapter; names are those of PEFT's LoraConfig."""

    kind: Literal["lora", "full"] = Field(
        "lora", description="lora: a LoRA adapter. full: all weights of the model, with `algorithm: sft` only; the other keys mean nothing."
    )
    r: int = Field(16, ge=1, le=4096, description="Rank.")
    lora_alpha: int = Field(32, ge=1, description="Scale of the update: lora_alpha / r.")
    lora_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the adapter's input.")
    target_modules: str | tuple[str, ...] = Field("all-linear", description="Modules that get an adapter: `all-linear` or a list of names.")


class Model(Part):
    """The base model, the same for every condition, and its adapter."""

    base: str = Field(
        min_length=1,
        description="`octavo/<name>`: made by this repository from specs/_models/<name>.yaml. A folder in the project. Or `owner/name`, "
        "a model of the Hugging Face hub, pinned in specs/revisions.lock.yaml.",
    )
    apply_chat_template: bool = Field(
        False,
        description="Put each prompt into the tokenizer's chat template, as the one message of a user; in training and evaluation alike.",
    )
    quantization: Literal["none", "nf4", "int8"] = Field(
        "none",
        description="Of the base model's linear layers, by bitsandbytes: nf4 (4 bits, as in QLoRA), int8 (LLM.int8), or none: as they are. "
        "The same in preflight, training and evaluation.",
    )
    adapter: Adapter = Field(default_factory=Adapter, description="What training changes.")


class PromptData(Part):
    """Prompts: a JSONL file, one object a row, each with a unique text `id`; or a dataset of the Hugging Face hub."""

    path: ProjectPath | None = Field(None, description="JSONL file; this or `hub`.")
    hub: HubId | None = Field(
        None, description="Dataset of the Hugging Face hub, `owner/name`, pinned in specs/revisions.lock.yaml; this or `path`."
    )
    split: str | None = Field(None, min_length=1, max_length=100, description="Split of a hub dataset; not given: `train`.")
    config: str | None = Field(None, min_length=1, max_length=100, description="Configuration (subset) of a hub dataset that has several.")
    id: str | None = Field(
        None,
        min_length=1,
        description="Column of a hub dataset that holds a unique id; not given: ids such as `train-1`, by the row's number.",
    )
    prompt: str = Field("prompt", min_length=1, description="Key of the prompt's text in a row.")
    rows: int | None = Field(None, ge=1, description="Use only the first so many rows.")

    @model_validator(mode="after")
    def _one_source(self) -> PromptData:
        if (self.path is None) == (self.hub is None):
            both = self.path is not None
            raise fault(
                "E209",
                "prompts have exactly one of `path` and `hub`" + (", and here both" if both else ""),
                "a file in the project and a dataset of the hub are two sources; layers merge, and null removes what a lower one says",
                f"hub: null, beside `path: {self.path}`" if both else "path: data/train.jsonl",
            )
        given = next((key for key in ("split", "config", "id") if getattr(self, key) is not None), None)
        if self.hub is None and given is not None:
            raise fault(
                "E275",
                f"`{given}` belongs to a hub dataset, and these prompts are the file `{self.path}`",
                "a file has no splits and no configurations, and its ids stand under `id`",
                f"delete `{given}`, or write `{given}: null` above a layer that gives it",
            )
        return self


class TrainData(PromptData):
    """Prompts to train on: a JSONL file, one object a row, each with a unique text `id`; or a dataset of the Hugging Face hub."""

    answer: str | None = Field(
        None, min_length=1, description="Key of the gold answer's text in a row, for `algorithm: sft`; not given: `answer`."
    )


class EvaluationData(PromptData):
    """Held-out prompts of the shared evaluation."""


class Data(Part):
    """Prompt sets."""

    train: TrainData = Field(description="Prompts to train on.")
    evaluation: EvaluationData | None = Field(None, description="Held-out prompts, the same for every run and the untrained model.")


class ConditionModel(Part):
    """What a condition may change of the model: the adapter. The base is shared, or runs could not be compared."""

    adapter: dict[str, Any] = Field({}, description="Keys of `model.adapter` that differ.")


class ConditionData(Part):
    """What a condition may change of the data: the training prompts. The evaluation is shared."""

    train: dict[str, Any] = Field({}, description="Keys of `data.train` that differ.")


class Condition(Part):
    """A named set of settings that is compared with others."""

    reward: RewardUse | None = Field(
        None,
        description="Name of a reward, or {invert: name}, {random: bernoulli, p: 0.5}, {constant: 0.0}; with `algorithm: sft` none.",
    )
    role: Literal["treatment", "control", "null_control"] = Field(
        description="null_control: trained without a signal; its movement is the noise floor."
    )
    train: dict[str, Any] = Field(
        {}, description="Keys of `train` that differ in this condition. `algorithm` may change to or from `sft`; keys of both stay."
    )
    data: ConditionData = Field(default_factory=ConditionData, description="Training prompts that differ in this condition.")
    model: ConditionModel = Field(default_factory=ConditionModel, description="Adapter settings that differ in this condition.")


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


class Resources(Part):
    """What a run needs."""

    gpus: int = Field(
        0,
        ge=0,
        le=16,
        description="0: trains on the CPU. More: each run trains on so many GPUs of one host, and its batch is so many times as large.",
    )
    gpu_memory: int | None = Field(
        None,
        ge=0,
        json_schema_extra={"unit": "B"},
        description="Memory that a run needs on each GPU; `octavo doctor` looks whether this machine has it.",
    )
    hours: float | None = Field(None, gt=0, description="Expected hours of a run; for planning only.")


class PageUse(Part):
    """What is published of the experiment, beside its page."""

    runs: bool = Field(
        False,
        description="A page for every run: its numbers, curves, health, attempts, completions and card. They are linked from the page of "
        "the experiment, and are neither in the navigation nor in the search.",
    )


class Spec(Part):
    """One experiment: `specs/<experiment>.yaml`."""

    title: str = Field(min_length=1, max_length=300, description="Title of the page.")
    owner: str = Field("", max_length=100, description="Who answers for the experiment.")
    tags: tuple[str, ...] = Field((), max_length=50, description="Words to find it by.")
    question: str = Field(min_length=1, max_length=5000, description="What the experiment is to decide.")
    use: tuple[Slug, ...] = Field(
        (), max_length=20, description="Blocks of specs/_shared/ that lie below this spec; later ones win over earlier ones."
    )
    parent: str | None = Field(None, description="Experiment that this one changes; all it says is inherited, but for title and claims.")
    changes: dict[str, Any] = Field(
        {}, description="The whole difference to the parent, as `train.learning_rate: 1.0e-6`; null removes. Any other one is an error."
    )
    hypothesis: str = Field("", max_length=5000, description="What the changes are expected to do, and why.")
    model: Model = Field(description="Base model and adapter.")
    data: Data = Field(description="Prompt sets.")
    train: dict[str, Any] = Field(description="Settings of training; which keys there are is decided by `algorithm`.")
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(
        min_length=1, max_length=10_000, description="One run a condition and seed."
    )
    rewards: dict[Slug, Reward] = Field({}, max_length=500, description="Rewards by name.")
    conditions: dict[Slug, Condition] = Field(
        max_length=1_000, min_length=1, description="Conditions by name, in the order of tables and colours."
    )
    preflight: Preflight = Field(default_factory=Preflight, description="Checks on the untrained model, before any training.")
    health: Health = Field(default_factory=Health, description="When a run counts.")
    evaluation: Evaluation | None = Field(None, description="The shared evaluation.")
    claims: tuple[Claim, ...] = Field(
        (), max_length=1_000, description="What the experiment is to decide, with rules written before the data."
    )
    questions: tuple[QuestionUse, ...] = Field(
        (), max_length=200, description="Questions that the page answers with computed sections: a text, or {ask, show}."
    )
    stop: Stop = Field(default_factory=Stop, description="When a run is stopped before its end. Null controls never are.")
    expect: tuple[Expectation, ...] = Field(
        (), max_length=1_000, description="What metrics should come to along the way, scored met, missed or not reached."
    )
    actions: tuple[Action, ...] = Field((), max_length=50, description="What to do next, in the author's judgement.")
    contingency: tuple[Contingency, ...] = Field((), max_length=50, description="What to do if things come out otherwise.")
    retries: Retries | None = Field(
        None,
        description="What the next attempt of a failed run may change, by the class of the failure; not given: nothing is tried by itself.",
    )
    resources: Resources = Field(default_factory=Resources, description="What a run needs.")
    page: PageUse = Field(default_factory=PageUse, description="What is published of the experiment, beside its page.")
    profiles: dict[Slug, dict[str, Any]] = Field(
        {}, max_length=MAX_PROFILES, description="Variants by name; each holds keys of the spec that differ."
    )


class ModelFile(Part):
    """A base model that the repository makes itself: `specs/_models/<name>.yaml`."""

    corpus: CorpusSettings = Field(description="Generated pairs to learn from.")
    architecture: ArchitectureSettings = Field(
        default_factory=lambda: ArchitectureSettings.model_validate({}), description="Shape of the decoder."
    )
    pretrain: PretrainSettings = Field(description="Supervised pre-training.")
