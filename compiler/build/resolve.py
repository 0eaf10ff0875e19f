"""Runs -> cards: everything pinned, nothing left open. A card holds all that changes its stage's result, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compiler.build import origins as places
from compiler.build.base_models import BaseModel
from compiler.build.inputs import CONSTRAINTS, LIBRARIES, Inputs
from compiler.build.origins_single import of_single_stages
from compiler.build.resolve_analysis import AnalysisCards
from compiler.build.revisions import Reference
from compiler.build.stops import stop_card, stop_origins
from compiler.document.node import Node
from compiler.language.algorithms import card_settings
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.language.gates import DECISIONS
from compiler.language.rewards import RewardUse
from stages.contracts.algorithms import ALGORITHMS, SFT, AnyTrainCard
from stages.contracts.artifact import Artifact
from stages.contracts.code import Version
from stages.contracts.evaluation import EvaluateCard, Sampling
from stages.contracts.lineage import Origin
from stages.contracts.model import Adapter, DatasetRef, Model, ModelRef, PromptData, TrainData
from stages.contracts.page_card import PageCard
from stages.contracts.plugin import GATES
from stages.contracts.preflight_card import PreflightCard, PreflightCondition
from stages.contracts.reward import Example, Gate
from stages.contracts.training import SampledSettings

ANSWER = "answer"
"""Key of gold answers in a row, where the spec names none."""


@dataclass(frozen=True)
class Cards:
    """Every card of one experiment. `train` holds one card a condition; its runs differ from it in the seed only."""

    model: BaseModel
    train: dict[str, AnyTrainCard]
    train_origins: dict[str, places.Origins]
    page: PageCard
    single: dict[str, Artifact]
    """Path below the experiment's folder -> card, of the stages that run once."""
    single_origins: dict[str, places.Origins]

    def on_hub(self) -> Iterator[tuple[str, str, str]]:
        """(models or datasets, name, commit) of hub repositories that stages read."""
        if self.model.hub:
            yield "models", self.model.path, self.model.revision
        evaluate = self.single.get("analysis/evaluate.card.json")
        data = [card.data for card in self.train.values()]
        data += [evaluate.data] if isinstance(evaluate, EvaluateCard) else []
        yield from (("datasets", one.hub, one.revision) for one in data if one.hub and one.revision)


def resolve(of: Experiment, expansion: Expansion, inputs: Inputs) -> Cards:
    """All cards. The rules have held: data files, rows and models exist. Raises Rejected E323 for versions that are not pinned."""
    work = Resolver(of, expansion, inputs)
    train = {setup.name: work.train(setup) for setup in expansion.setups}
    rewarded = any(isinstance(setup.train, SampledSettings) for setup in expansion.setups)
    single: dict[str, Artifact] = {"preflight/preflight.card.json": work.preflight()} if rewarded else {}
    page = work.analysis.page()
    single |= work.analysis.single(page)
    if of.spec.evaluation is not None:
        single["analysis/evaluate.card.json"] = work.evaluate()
    train_origins = {setup.name: work.train_origins(setup, train[setup.name]) for setup in expansion.setups}
    origins = {path: found for path, found in of_single_stages(of, expansion).items() if path in single}
    return Cards(work.model, train, train_origins, page, single, origins)


class Resolver:
    """The cards of training and evaluation, with the parts that they share made once."""

    def __init__(self, of: Experiment, expansion: Expansion, inputs: Inputs) -> None:
        self.of, self.spec, self.expansion, self.inputs = of, of.spec, expansion, inputs
        self.model = inputs.model(of.spec.model.base)
        self.device: Any = "cuda" if of.spec.resources.gpus else "cpu"
        self.analysis = AnalysisCards(of, expansion, inputs)
        self.examples: dict[tuple[str, str | None], tuple[Example, ...]] = {}
        self.reward_origins: dict[str | Node, places.Origins] = {}

    def train(self, setup: Setup) -> AnyTrainCard:
        return AnyTrainCard(
            experiment=self.of.name,
            condition=setup.name,
            seed=self.spec.seeds[0],
            null_control=setup.condition.role == "null_control",
            model=self._model(setup),
            data=self._data(setup.data, setup.data.answer or ANSWER if setup.train.algorithm == SFT else None),
            reward=None if setup.train.algorithm == SFT else setup.reward.card(),
            train=card_settings(setup.train),
            stop=stop_card(self.of, setup),
            device=self.device,
            gpus=max(1, self.spec.resources.gpus),
            versions=self._versions(LIBRARIES),
            code=self._code(ALGORITHMS[setup.train.algorithm].stage, GATES, (use.card.kind for use in setup.reward.gates)),
        )

    def preflight(self) -> PreflightCard:
        return PreflightCard(
            experiment=self.of.name,
            model=self._model(None),
            conditions=tuple(self._preflight_condition(setup) for setup in self.expansion.setups if setup.train.algorithm != SFT),
            **dict(self.spec.preflight),
            device=self.device,
            versions=self._versions(("torch", "transformers")),
            code=self._code(
                "stages.train.preflight", GATES, (use.card.kind for setup in self.expansion.setups for use in setup.reward.gates)
            ),
        )

    def _preflight_condition(self, setup: Setup) -> PreflightCondition:
        sampling = setup.train
        assert isinstance(sampling, SampledSettings)  # all algorithms with a reward learn from completions that they sample
        return PreflightCondition(
            name=setup.name,
            null_control=setup.condition.role == "null_control",
            reward=setup.reward.card(self._examples(setup)),
            data=self._data(setup.data),
            num_generations=sampling.group_size,
            max_completion_length=sampling.max_completion_length,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            completions_per_step=sampling.prompts_per_batch * sampling.group_size * max(1, self.spec.resources.gpus) or None,
        )

    def evaluate(self) -> EvaluateCard:
        evaluation, data = self.spec.evaluation, self.spec.data.evaluation
        assert evaluation is not None and data is not None  # a rule asks for the data of an evaluation
        sampling = {key: getattr(evaluation, key) for key in Sampling.model_fields}
        return EvaluateCard(
            experiment=self.of.name,
            runs=tuple(run.name for run in self.analysis.runs),
            model=self._model(None),
            data=self._data(data),
            scores=tuple(_score(use.card) for use in self.expansion.scores),
            combined=self.expansion.combined,
            **{**sampling, "max_completion_length": evaluation.max_completion_length or max(map(_longest, self.expansion.setups))},
            device=self.device,
            versions=self._versions(("torch", "transformers", "peft")),
            code=self._code("stages.train.evaluate", GATES, (use.card.kind for use in self.expansion.scores)),
        )

    def train_origins(self, setup: Setup, card: AnyTrainCard) -> places.Origins:
        pins = {
            name: Origin(file=CONSTRAINTS.as_posix(), line=line, column=1, layer="shared", key=name)
            for name, (_, line) in self.inputs.pins().items()
            if name in card.versions
        }
        written = card.model_dump(mode="json", exclude={"reward"})
        base, resources, stop = self.of.node("model"), self.of.root.get("resources"), stop_origins(self.of, setup)
        reward = {} if card.reward is None else self._reward_origins(setup.reward)
        return places.of_setup(setup, written, base, resources, pins, stop, reward)

    def _reward_origins(self, reward: RewardUse) -> places.Origins:
        key = reward.declared or reward.node
        if key not in self.reward_origins:  # many conditions may share a reward with many gates
            self.reward_origins[key] = places.of_reward(reward)
        return places.of_condition(reward) | self.reward_origins[key]

    def _model(self, setup: Setup | None) -> ModelRef:
        """The base model with a condition's adapter; stages that train nothing get the adapter's defaults, which they ignore."""
        written = {key: getattr(self.spec.model, key) for key in Model.model_fields}
        pinned = {"path": self.model.path, "revision": self.model.revision, "hub": self.model.hub}
        return ModelRef(**{**written, **pinned, "adapter": setup.adapter if setup else Adapter()})

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

    def _examples(self, setup: Setup) -> tuple[Example, ...]:
        """Examples go to preflight, which decides whether a condition trains; on a train card each new example would retrain."""
        declared = setup.reward.declared
        if declared is None:
            return ()
        if (declared, setup.data.path) not in self.examples:  # many conditions may share a reward with many examples
            self.examples[declared, setup.data.path] = example_cards(self.of, declared, setup.data, self.inputs)
        return self.examples[declared, setup.data.path]

    def _code(self, stage: str, package: str, kinds: Any) -> dict[str, Version]:
        return self.inputs.code([stage, *(f"{package}.{kind}" for kind in sorted(set(kinds)))])


def _longest(setup: Setup) -> int:
    return setup.train.max_completion_length if isinstance(setup.train, SampledSettings) else 1


def example_cards(of: Experiment, reward: str, data: TrainData, inputs: Inputs) -> tuple[Example, ...]:
    """A reward's examples, each with the row that it names or brings along. The rules have held: named rows exist."""
    examples = of.spec.rewards[reward].examples
    rows = inputs.data(data.path).rows if any(isinstance(example.row, str) for example in examples) else {}
    return tuple(
        Example(
            **{key: getattr(example, key) for key in Example.model_fields if key not in ("row", "because")},
            row=rows[example.row] if isinstance(example.row, str) else example.row,
        )
        for example in examples
    )


def _score(gate: Gate) -> Gate:
    """A gate as a score of its own: what it would decide in a reward does not matter."""
    return gate.model_copy(update=DECISIONS)
