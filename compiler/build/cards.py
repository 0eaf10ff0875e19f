"""Runs -> cards: everything pinned, nothing left open. A card holds all that changes its stage's result, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.build.analysis_cards import analysis_cards
from compiler.build.imports import ImportedRuns, section, where_of
from compiler.build.inputs import LIBRARIES, BaseModel, Inputs
from compiler.build.revisions import Reference
from compiler.build.stops import stop_rules
from compiler.document.layers import overlay
from compiler.document.units import factor
from compiler.language.expand import Expansion, Run, Setup
from compiler.language.experiment import Experiment
from compiler.language.outside import CommandSpec, MetricUse
from compiler.language.rewards import DECISIONS, GateUse
from stages.contracts.algorithms import ALGORITHMS, SFT, AnyTrainCard
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import Artifact
from stages.contracts.code import Version
from stages.contracts.evaluation import EvaluateCard, Sampling
from stages.contracts.files import file_digest
from stages.contracts.history import metric
from stages.contracts.import_card import ColumnCard, CommandCard, ImportCard, LogReading, ReadCard, SourceCard, SummaryCard, SummaryKeys
from stages.contracts.layout import RUNS, RunFolder
from stages.contracts.model import Adapter, DatasetRef, Model, ModelRef, PromptData, TrainData
from stages.contracts.page_card import PageCard
from stages.contracts.plugin import GATES
from stages.contracts.preflight_card import PreflightCard, PreflightCondition
from stages.contracts.reward import Example
from stages.contracts.training import GroupedSettings, SampledSettings, Sampler, TrainSettings, TrlSettings

CARD, IMPORT_CARD = RunFolder(RUNS).card.name, RunFolder(RUNS).import_card.name
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

    @property
    def conclude(self) -> ConcludeCard:
        conclude = self.single["analysis/conclude.card.json"]
        assert isinstance(conclude, ConcludeCard)
        return conclude

    @property
    def evaluate(self) -> EvaluateCard | None:
        evaluate = self.single.get("analysis/evaluate.card.json")
        assert evaluate is None or isinstance(evaluate, EvaluateCard)
        return evaluate

    def code(self) -> dict[str, Version]:
        """Code versions of all stages of the experiment."""
        cards = (*self.train.values(), *self.single.values(), self.model.card)
        return {unit: version for card in cards for unit, version in getattr(card, "code", {}).items()}

    def on_hub(self) -> Iterator[tuple[str, str, str]]:
        """(models or datasets, name, commit) of hub repositories that stages read."""
        if self.model.hub:
            yield "models", self.model.path, self.model.revision
        data = [card.data for card in self.train.values()]
        data += [self.evaluate.data] if self.evaluate else []
        yield from (("datasets", rows.hub, rows.revision) for rows in data if rows.hub and rows.revision)


def resolve(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Cards:
    """All cards. The checks have held: data files, rows and models exist. Raises Rejected E323 for versions that are not pinned."""
    cards = _TrainingCards(experiment, expansion, inputs)
    train = {setup.name: cards.train(setup) for setup in expansion.setups}
    single = analysis_cards(experiment, expansion, inputs)
    if any(isinstance(setup.train, SampledSettings) for setup in expansion.setups):
        single["preflight/preflight.card.json"] = cards.preflight()
    if evaluate := evaluate_card(experiment, expansion, inputs):
        single["analysis/evaluate.card.json"] = evaluate
    return Cards(cards.model, train, single)


def evaluate_card(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> EvaluateCard | None:
    """The card of the shared evaluation; None where there is none."""
    is_evaluated = experiment.spec.evaluation is not None and experiment.spec.data.evaluation is not None
    return _TrainingCards(experiment, expansion, inputs).evaluate() if is_evaluated else None


def resolve_imports(experiment: Experiment, imported: ImportedRuns, inputs: Inputs) -> Cards:
    """All cards of runs that octavo does not train itself. The checks have held: every run has a source."""
    cards = analysis_cards(experiment, imported.expansion, inputs)
    runs = {f"{run.name}/{IMPORT_CARD}": _import_card(experiment, run, imported, inputs) for run in imported.expansion.runs}
    return Cards(BaseModel("", "", None, None), {}, runs | cards)  # nothing is trained or sampled


def _values(section: Any, model: type[Any], *but: str) -> dict[str, Any]:
    """The fields that a section of a spec shares with a card's model."""
    return {key: getattr(section, key) for key in model.model_fields if key not in but}


def _uses_bitsandbytes(train: TrainSettings) -> bool:
    return isinstance(train, TrlSettings) and train.uses_bitsandbytes


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
            versions=self._versions((*LIBRARIES, *(("bitsandbytes",) if _uses_bitsandbytes(setup.train) else ()))),
            code=self._code(ALGORITHMS[setup.train.algorithm].stage, setup.reward.gates),
        )

    def preflight(self) -> PreflightCard:
        gates = [use for setup in self.expansion.setups for use in setup.reward.gates]
        return PreflightCard(
            experiment=self.experiment.name,
            model=self._model(Adapter()),
            conditions=tuple(self._preflight_condition(setup) for setup in self.expansion.setups if setup.train.algorithm != SFT),
            supervised=any(setup.train.algorithm == SFT for setup in self.expansion.setups),
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
            **(_values(sampling, Sampler) if isinstance(sampling, GroupedSettings) else {}),
            completions_per_step=sampling.prompts_per_batch * sampling.group_size * self.gpus or None,
        )

    def evaluate(self) -> EvaluateCard:
        evaluation, data, scores = self.spec.evaluation, self.spec.data.evaluation, self.expansion.scores
        assert evaluation is not None and data is not None  # a check asks for the data of an evaluation
        longest = max(getattr(setup.train, "max_completion_length", 1) for setup in self.expansion.setups)
        return EvaluateCard(
            experiment=self.experiment.name,
            model=self._model(Adapter()),
            data=self._data(data),
            scores=tuple(use.card.model_copy(update=DECISIONS) for use in scores),  # what a gate would decide in a reward does not matter
            combined=self.expansion.combined,
            **_values(evaluation, Sampling, "max_completion_length", "answer"),
            max_completion_length=evaluation.max_completion_length or longest,
            answer=self.expansion.answer,
            device=self.device,
            versions=self._versions(("torch", "transformers", "peft")),
            code=self._code("stages.train.evaluate", scores),
        )

    def _model(self, adapter: Adapter) -> ModelRef:
        """The base model with an adapter; stages that train nothing get the adapter's defaults, which they ignore."""
        pinned = {"path": self.model.path, "revision": self.model.revision, "hub": self.model.hub}
        return ModelRef(**{**_values(self.spec.model, Model), **pinned, "adapter": adapter})

    def _versions(self, names: tuple[str, ...]) -> dict[str, str]:
        """Pinned versions of libraries that a stage's result depends on."""
        more = () if self.spec.model.quantization == "none" else ("bitsandbytes",)
        return self.inputs.versions((*names, *more))

    def _data(self, data: PromptData, answer: str | None = None) -> DatasetRef:
        written = {**_values(data, PromptData), "answer": answer, "layout": self.spec.prompt}
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
            **{
                **_values(example, Example, "because"),
                "row": rows[example.row] if isinstance(example.row, str) else example.row,
            }
        )
        for example in examples
    )


def _import_card(experiment: Experiment, run: Run, imported: ImportedRuns, inputs: Inputs) -> ImportCard:
    spec, read = experiment.spec, section(experiment)
    command, stage, others = None, "stages.train.collect", list[SourceCard]()
    if isinstance(spec, CommandSpec):  # the program gets the settings of the run's condition
        base, over = experiment.root.get("train", "settings"), run.setup.node.get("train", "settings")
        merged = overlay(base, over, "condition") if base is not None and over is not None else over or base
        code = tuple(SourceCard(path=path, sha256=file_digest(Path(path))) for path in spec.train.code)
        settings = merged.plain() if merged is not None else {}
        command = CommandCard(arguments=spec.train.command, code=code, log=spec.train.history.file, settings=settings)
        source, stage = SourceCard(path=f"(written by the program): {command.log}", sha256=""), "stages.train.command"
    else:
        source, *others = imported.sources[run.name]
    reading = ReadCard(
        **_values(read, LogReading),
        where={key: where_of(value, read, run) for key, value in read.where.items()},
        columns=tuple(_column(name, source) for name, source in read.metrics.items() if not isinstance(source, SummaryKeys)),
        summary=tuple(
            SummaryCard(**{**dict(source), **_unit(name, source.unit)}, metric=name)
            for name, source in read.metrics.items()
            if isinstance(source, SummaryKeys)
        ),
        steps_done=read.steps_done,
        state=read.state,
        config=read.config,
    )
    return ImportCard(
        command=command,
        experiment=experiment.name,
        condition=run.setup.name,
        seed=run.seed,
        null_control=run.setup.condition.role == "null_control",
        source=source,
        others=tuple(others),
        read=reading,
        target_steps=read.steps,
        code=inputs.code([stage]),
    )


def _column(name: str, source: MetricUse) -> ColumnCard:
    if isinstance(source, str):
        return ColumnCard(metric=name, column=source, **_unit(name, None))
    assert not isinstance(source, SummaryKeys)
    return ColumnCard(metric=name, column=source.column, also=source.also, optional=source.optional, **_unit(name, source.unit))


def _unit(name: str, logged: str | None) -> dict[str, Any]:
    meaning = metric(name)
    assert meaning is not None  # a check asks
    return {"unit": logged or meaning.unit, "factor": factor(meaning.unit, logged) or 1.0}
