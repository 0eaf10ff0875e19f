"""Runs -> cards: everything pinned, nothing left open. A card holds all that changes its stage's result, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from compiler.build.inputs import LIBRARIES, BaseModel, Inputs
from compiler.build.resolve_analysis import AnalysisCards
from compiler.build.revisions import Reference
from compiler.build.stops import stop_rules
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.language.rewards import DECISIONS, GateUse
from stages.contracts.algorithms import ALGORITHMS, SFT, AnyTrainCard
from stages.contracts.artifact import Artifact
from stages.contracts.code import Version
from stages.contracts.evaluation import EvaluateCard, Sampling
from stages.contracts.model import Adapter, DatasetRef, Model, ModelRef, PromptData, TrainData
from stages.contracts.page_card import PageCard
from stages.contracts.plugin import GATES
from stages.contracts.preflight_card import PreflightCard, PreflightCondition
from stages.contracts.reward import Example
from stages.contracts.training import SampledSettings

ANSWER = "answer"
"""Key of gold answers in a row, where the spec names none."""


@dataclass(frozen=True)
class Cards:
    """Every card of one experiment. `train` holds one card a condition; its runs differ from it in the seed only."""

    model: BaseModel
    train: dict[str, AnyTrainCard]
    single: dict[str, Artifact]
    """Path below the experiment's folder -> card, of the stages that run once and of imports."""

    @property
    def page(self) -> PageCard:
        page = self.single["page.card.json"]
        assert isinstance(page, PageCard)
        return page

    def code(self) -> dict[str, Version]:
        """Code versions of all stages of the experiment."""
        cards = (*self.train.values(), *self.single.values(), self.model.card)
        return {unit: version for card in cards for unit, version in getattr(card, "code", {}).items()}

    def on_hub(self) -> Iterator[tuple[str, str, str]]:
        """(models or datasets, name, commit) of hub repositories that stages read."""
        if self.model.hub:
            yield "models", self.model.path, self.model.revision
        evaluate = self.single.get("analysis/evaluate.card.json")
        data = [card.data for card in self.train.values()]
        data += [evaluate.data] if isinstance(evaluate, EvaluateCard) else []
        yield from (("datasets", rows.hub, rows.revision) for rows in data if rows.hub and rows.revision)


def resolve(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Cards:
    """All cards. The checks have held: data files, rows and models exist. Raises Rejected E323 for versions that are not pinned."""
    cards = _TrainingCards(experiment, expansion, inputs)
    train = {setup.name: cards.train(setup) for setup in expansion.setups}
    single = AnalysisCards(experiment, expansion, inputs).single()
    if any(isinstance(setup.train, SampledSettings) for setup in expansion.setups):
        single["preflight/preflight.card.json"] = cards.preflight()
    if experiment.spec.evaluation is not None:
        single["analysis/evaluate.card.json"] = cards.evaluate()
    return Cards(cards.model, train, single)


class _TrainingCards:
    """The cards of training and evaluation, with the parts that they share made once."""

    def __init__(self, experiment: Experiment, expansion: Expansion, inputs: Inputs) -> None:
        self.experiment, self.spec, self.expansion, self.inputs = experiment, experiment.spec, expansion, inputs
        self.model = inputs.model(self.spec.model.base)
        self.device: Any = "cuda" if self.spec.resources.gpus else "cpu"
        self.gpus = max(1, self.spec.resources.gpus)

    def train(self, setup: Setup) -> AnyTrainCard:
        supervised = setup.train.algorithm == SFT
        return AnyTrainCard(
            experiment=self.experiment.name,
            condition=setup.name,
            seed=self.spec.seeds[0],
            null_control=setup.condition.role == "null_control",
            model=self._model(setup.adapter),
            data=self._data(setup.data, setup.data.answer or ANSWER if supervised else None),
            reward=None if supervised else setup.reward.card(),
            train=setup.train,
            stop=stop_rules(self.experiment, setup),
            device=self.device,
            gpus=self.gpus,
            versions=self._versions(LIBRARIES),
            code=self._code(ALGORITHMS[setup.train.algorithm].stage, setup.reward.gates),
        )

    def preflight(self) -> PreflightCard:
        gates = [use for setup in self.expansion.setups for use in setup.reward.gates]
        return PreflightCard(
            experiment=self.experiment.name,
            model=self._model(Adapter()),
            conditions=tuple(self._preflight_condition(setup) for setup in self.expansion.setups if setup.train.algorithm != SFT),
            **dict(self.spec.preflight),
            device=self.device,
            versions=self._versions(("torch", "transformers")),
            code=self._code("stages.train.preflight", gates),
        )

    def _preflight_condition(self, setup: Setup) -> PreflightCondition:
        sampling, declared = setup.train, setup.reward.declared
        assert isinstance(sampling, SampledSettings)  # all algorithms with a reward learn from completions that they sample
        # preflight decides by the examples whether a condition trains; on a train card each new example would retrain
        examples = example_cards(self.experiment, declared, setup.data, self.inputs) if declared else ()
        return PreflightCondition(
            name=setup.name,
            null_control=setup.condition.role == "null_control",
            reward=setup.reward.card(examples),
            data=self._data(setup.data),
            num_generations=sampling.group_size,
            max_completion_length=sampling.max_completion_length,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            completions_per_step=sampling.prompts_per_batch * sampling.group_size * self.gpus or None,
        )

    def evaluate(self) -> EvaluateCard:
        evaluation, data, scores = self.spec.evaluation, self.spec.data.evaluation, self.expansion.scores
        assert evaluation is not None and data is not None  # a check asks for the data of an evaluation
        longest = max(getattr(setup.train, "max_completion_length", 1) for setup in self.expansion.setups)
        sampling = {key: getattr(evaluation, key) for key in Sampling.model_fields}
        return EvaluateCard(
            experiment=self.experiment.name,
            runs=tuple(run.name for run in self.expansion.runs),
            model=self._model(Adapter()),
            data=self._data(data),
            scores=tuple(use.card.model_copy(update=DECISIONS) for use in scores),  # what a gate would decide in a reward does not matter
            combined=self.expansion.combined,
            **{**sampling, "max_completion_length": evaluation.max_completion_length or longest},
            device=self.device,
            versions=self._versions(("torch", "transformers", "peft")),
            code=self._code("stages.train.evaluate", scores),
        )

    def _model(self, adapter: Adapter) -> ModelRef:
        """The base model with an adapter; stages that train nothing get the adapter's defaults, which they ignore."""
        written = {key: getattr(self.spec.model, key) for key in Model.model_fields}
        pinned = {"path": self.model.path, "revision": self.model.revision, "hub": self.model.hub}
        return ModelRef(**{**written, **pinned, "adapter": adapter})

    def _versions(self, names: tuple[str, ...]) -> dict[str, str]:
        """Pinned versions of libraries that a stage's result depends on."""
        more = () if self.spec.model.quantization == "none" else ("bitsandbytes",)
        return self.inputs.versions((*names, *more))

    def _data(self, data: PromptData, answer: str | None = None) -> DatasetRef:
        written = {**{key: getattr(data, key) for key in PromptData.model_fields}, "answer": answer}
        if data.hub is not None:
            commit = self.inputs.commit(Reference("datasets", data.hub))
            return DatasetRef(**{**written, "revision": commit, "split": data.split or "train"})
        return DatasetRef(**written, sha256=self.inputs.data(data.path).sha256)

    def _code(self, stage: str, gates: Iterable[GateUse]) -> dict[str, Version]:
        return self.inputs.code([stage, *(f"{GATES}.{kind}" for kind in sorted({use.card.kind for use in gates}))])


def example_cards(experiment: Experiment, reward: str, data: TrainData, inputs: Inputs) -> tuple[Example, ...]:
    """A reward's examples, each with the row that it names or brings along. The checks have held: named rows exist."""
    examples = experiment.spec.rewards[reward].examples
    rows = inputs.data(data.path).rows if any(isinstance(example.row, str) for example in examples) else {}
    return tuple(
        Example(
            **{key: getattr(example, key) for key in Example.model_fields if key not in ("row", "because")},
            row=rows[example.row] if isinstance(example.row, str) else example.row,
        )
        for example in examples
    )
