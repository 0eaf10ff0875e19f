"""Runs -> cards: everything pinned, nothing left open. A card holds all that changes its stage's result, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler import disk
from compiler import origins as places
from compiler.algorithms import card_settings
from compiler.changed import parent_changes
from compiler.expand import Expansion, Setup
from compiler.experiment import Experiment
from compiler.gates import DECISIONS
from compiler.health_profiles import detectors, named, profile_of
from compiler.inputs import CONSTRAINTS, LIBRARIES, BaseModel, Inputs
from compiler.intentions import intentions
from compiler.logged import logs_kl
from compiler.origins_single import of_single_stages
from compiler.questions import asked, asked_metrics, metrics, question_words
from compiler.revisions import Reference
from compiler.spec import PromptData, TrainData
from compiler.stops import expect_cards, stop_card, stop_origins
from stages.contracts.algorithms import SFT, AnyTrainCard, stage_of
from stages.contracts.analysis_card import (
    ClaimCard,
    ConcludeCard,
    ConditionCard,
    ConditionProfile,
    Contrast,
    DrawCard,
    HealthGate,
    RunRef,
    ScreenCard,
    Windows,
)
from stages.contracts.artifact import Artifact
from stages.contracts.evaluate_card import EvaluateCard
from stages.contracts.model_card import AdapterCard, DataCard, HubSplit, ModelCard
from stages.contracts.origin import Origin
from stages.contracts.page_card import ClaimWords, PageCard
from stages.contracts.plugin import DETECTORS, GATES
from stages.contracts.preflight_card import PreflightCard, PreflightCondition
from stages.contracts.reward_card import ExampleCard, GateCard
from stages.contracts.rule_card import ConditionStop
from stages.contracts.sampled import SampledSettings

CURVES = ("reward", "zero_signal_share", "truncated", "completion_tokens", "entropy", "grad_norm")
PPO_CURVES = (
    "reward",
    "objective.rlhf_reward",
    "objective.kl",
    "kl",
    "kl_coef",
    "entropy",
    "loss.policy",
    "loss.value",
    "value.explained_variance",
    "policy.approxkl",
    "policy.clipfrac",
    "truncated",
    "completion_tokens",
    "grad_norm",
)
SFT_CURVES = ("loss", "mean_token_accuracy", "entropy", "grad_norm")
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
    kept: dict[str, str] = field(default_factory=dict)
    """Path below the experiment's folder -> code hash that the card keeps by a waiver, instead of its own."""

    def on_hub(self) -> Iterator[tuple[str, str, str]]:
        """(models or datasets, name, commit) of hub repositories that stages read."""
        if self.model.hub:
            yield "models", self.model.path, self.model.revision
        evaluate = self.single.get("analysis/evaluate.card.json")
        data = [card.data for card in self.train.values()]
        data += [evaluate.data] if isinstance(evaluate, EvaluateCard) else []
        yield from (("datasets", one.path, one.hub.revision) for one in data if one.hub)


def resolve(of: Experiment, expansion: Expansion, inputs: Inputs) -> Cards:
    """All cards. The rules have held: data files, rows and models exist. Raises Rejected E323 for versions that are not pinned."""
    work = Resolver(of, expansion, inputs)
    train = {setup.name: work.train(setup) for setup in expansion.setups}
    page = work.page()
    rewarded = any(isinstance(setup.train, SampledSettings) for setup in expansion.setups)
    single: dict[str, Artifact] = {"preflight/preflight.card.json": work.preflight()} if rewarded else {}
    single |= {
        "analysis/screen.card.json": work.screen(),
        "analysis/conclude.card.json": work.conclude(),
        "analysis/draw.card.json": work.draw(),
        "page.card.json": page,
    }
    if of.spec.evaluation is not None:
        single["analysis/evaluate.card.json"] = work.evaluate()
    train_origins = {setup.name: work.train_origins(setup, train[setup.name]) for setup in expansion.setups}
    origins = {path: found for path, found in of_single_stages(of, expansion).items() if path in single}
    return Cards(work.model, train, train_origins, page, single, origins)


class Resolver:
    """Parts that several cards share, made once."""

    def __init__(self, of: Experiment, expansion: Expansion, inputs: Inputs) -> None:
        self.of, self.spec, self.expansion, self.inputs = of, of.spec, expansion, inputs
        self.model = self.base_model()
        self.device: Any = "cuda" if of.spec.resources.gpus else "cpu"
        self.conditions = tuple(
            ConditionCard(
                name=setup.name,
                role=setup.condition.role,
                reward=setup.reward.name,
                gates=tuple(use.card.name for use in setup.reward.gates),
                supervised=setup.train.algorithm == SFT,
            )
            for setup in expansion.setups
        )
        self.runs = tuple(
            RunRef(name=run.name, condition=run.setup.name, seed=run.seed, target_steps=run.setup.train.max_steps) for run in expansion.runs
        )
        self.questions = question_words(of, expansion)
        self.scores = (*(use.card.name for use in expansion.scores), *(combined.name for combined in expansion.combined))
        self.examples: dict[tuple[str, str | None], tuple[ExampleCard, ...]] = {}

    def base_model(self) -> BaseModel:
        """Raises Fault, which a rule has ruled out."""
        return self.inputs.model(self.spec.model.base)

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
            versions=self._versions(LIBRARIES),
            code_hash=self._code(stage_of(setup.train.algorithm), GATES, (use.card.kind for use in setup.reward.gates)),
        )

    def preflight(self) -> PreflightCard:
        settings = self.spec.preflight
        return PreflightCard(
            experiment=self.of.name,
            model=self._model(None),
            conditions=tuple(self._preflight_condition(setup) for setup in self.expansion.setups if setup.train.algorithm != SFT),
            completions=settings.completions,
            zero_signal_below=settings.zero_signal_share.below,
            truncated_below=settings.truncated.below,
            device=self.device,
            versions=self._versions(("torch", "transformers")),
            code_hash=self._code(
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
        return EvaluateCard(
            experiment=self.of.name,
            runs=tuple(run.name for run in self.runs),
            model=self._model(None),
            data=self._data(data),
            scores=tuple(_score(use.card) for use in self.expansion.scores),
            combined=self.expansion.combined,
            samples=evaluation.samples,
            temperature=evaluation.temperature,
            top_p=evaluation.top_p,
            max_completion_length=evaluation.max_completion_length or max(map(_longest, self.expansion.setups)),
            device=self.device,
            versions=self._versions(("torch", "transformers", "peft")),
            code_hash=self._code("stages.train.evaluate", GATES, (use.card.kind for use in self.expansion.scores)),
        )

    def screen(self) -> ScreenCard:
        first, others = self.profiles()
        changes = self.spec.health.detectors
        selected = detectors(first, changes)
        kinds = [detector.kind for profile in (first, *others.values()) for detector in detectors(profile, changes)]
        return ScreenCard(
            experiment=self.of.name,
            profile=first,
            conditions=self.conditions,
            runs=self.runs,
            detectors=selected,
            others=tuple(
                ConditionProfile(condition=name, profile=profile, detectors=detectors(profile, changes)) for name, profile in others.items()
            ),
            gates=tuple(_health_gate(name, self.spec.health.gates[name]) for name in sorted(self.spec.health.gates)),
            windows=Windows(),
            code_hash=self._code("stages.analyse.screen", DETECTORS, kinds),
        )

    def profiles(self) -> tuple[str, dict[str, str]]:
        """The health profile of the experiment's first condition with a reward, and conditions that have another one."""
        rewarded = [setup for setup in self.expansion.setups if setup.train.algorithm != SFT] or self.expansion.setups
        first = profile_of(self.spec.health.profile, rewarded[0].train.algorithm)
        each = {setup.name: profile_of(self.spec.health.profile, setup.train.algorithm) for setup in self.expansion.setups}
        return first, {name: profile for name, profile in each.items() if profile != first}

    def conclude(self) -> ConcludeCard:
        return ConcludeCard(
            experiment=self.of.name,
            conditions=self.conditions,
            runs=self.runs,
            evaluation=self.scores,
            metrics=tuple(dict.fromkeys([*self.curves(), *asked_metrics(self.questions, metrics(self.expansion))])),
            claims=tuple(
                ClaimCard(
                    id=claim.id,
                    metric=claim.metric,
                    statistic=claim.statistic,
                    contrast=Contrast(condition=claim.contrast.condition, against=claim.contrast.against) if claim.contrast else None,
                    condition=claim.condition,
                    direction="above" if claim.above is not None else "below",
                    margin=float(claim.above if claim.above is not None else claim.below or 0.0),
                    seeds=claim.needs.seeds,
                    included_only=claim.needs.health == "included",
                )
                for claim in self.spec.claims
            ),
            windows=Windows(),
            asked=asked(self.questions),
            expectations=expect_cards(self.of, self.spec.expect),
            stops=tuple(
                ConditionStop(condition=setup.name, stop=stop) for setup in self.expansion.setups if (stop := stop_card(self.of, setup))
            ),
            code_hash=self.inputs.code(["stages.analyse.conclude"]),
        )

    def draw(self) -> DrawCard:
        return DrawCard(
            experiment=self.of.name,
            conditions=self.conditions,
            runs=self.runs,
            evaluation=self.scores,
            curves=self.curves(),
            code_hash=self.inputs.code(["stages.analyse.draw"]),
        )

    def page(self) -> PageCard:
        prose = Path(self.of.document.file).with_suffix(".md")
        return PageCard(
            experiment=self.of.name,
            title=self.spec.title.strip(),
            question=" ".join(self.spec.question.split()),
            owner=self.spec.owner,
            tags=self.spec.tags,
            spec=self.of.document.file,
            prose=prose.as_posix() if disk.is_file(prose) else None,
            profile=self.of.profile,
            health_profile=self._profile_words(),
            conditions=self.conditions,
            runs=self.runs,
            claims=tuple(ClaimWords(id=claim.id, says=" ".join(claim.says.split())) for claim in self.spec.claims),
            evaluation=self.scores,
            curves=self.curves(),
            parent=self.spec.parent,
            changes=parent_changes(self.of),
            hypothesis=" ".join(self.spec.hypothesis.split()),
            questions=self.questions,
            **intentions(self.of, self.inputs),
            run_pages=self.spec.page.runs,
            code_hash=self.inputs.code(["stages.publish.page"]),
        )

    def _profile_words(self) -> str:
        first, others = self.profiles()
        words = "; ".join([first, *(f"{name}: {profile}" for name, profile in others.items())])
        return named(words, self.spec.health.detectors)

    def train_origins(self, setup: Setup, card: AnyTrainCard) -> places.Origins:
        pins = {
            name: Origin(file=CONSTRAINTS.as_posix(), line=line, column=1, layer="shared")
            for name, (_, line) in self.inputs.pins().items()
            if name in card.versions
        }
        return places.of_setup(
            setup, card.model_dump(mode="json"), self.of.node("model"), self.of.root.get("resources"), pins, stop_origins(self.of, setup)
        )

    def _model(self, setup: Setup | None) -> ModelCard:
        """The base model with a condition's adapter; stages that train nothing get the adapter's defaults, which they ignore."""
        adapter = AdapterCard.model_validate(setup.adapter.model_dump()) if setup else AdapterCard()
        return ModelCard(
            base=self.spec.model.base,
            path=self.model.path,
            revision=self.model.revision,
            hub=self.model.hub,
            quantization=self.spec.model.quantization,
            adapter=adapter,
            apply_chat_template=self.spec.model.apply_chat_template,
        )

    def _versions(self, names: tuple[str, ...]) -> dict[str, str]:
        """Pinned versions of libraries that a stage's result depends on."""
        more = () if self.spec.model.quantization == "none" else ("bitsandbytes",)
        return self.inputs.versions((*names, *more))

    def _data(self, data: PromptData, answer: str | None = None) -> DataCard:
        if data.hub is not None:
            commit = self.inputs.commit(Reference("datasets", data.hub))
            rows = HubSplit(revision=commit, split=data.split or "train", config=data.config, id=data.id)
            return DataCard(path=data.hub, hub=rows, prompt=data.prompt, answer=answer, rows=data.rows)
        assert data.path is not None  # the model of a spec asks for one of the two
        return DataCard(path=data.path, sha256=self.inputs.data(data.path).sha256, prompt=data.prompt, answer=answer, rows=data.rows)

    def _examples(self, setup: Setup) -> tuple[ExampleCard, ...]:
        """Examples go to preflight, which decides whether a condition trains; on a train card each new example would retrain."""
        declared = setup.reward.declared
        if declared is None:
            return ()
        if (declared, setup.data.path) not in self.examples:  # many conditions may share a reward with many examples
            self.examples[declared, setup.data.path] = example_cards(self.of, declared, setup.data, self.inputs)
        return self.examples[declared, setup.data.path]

    def curves(self) -> tuple[str, ...]:
        gates = dict.fromkeys(use.card.name for setup in self.expansion.setups if setup.reward.declared for use in setup.reward.gates)
        pass_shares = tuple(f"gate.{gate}.pass_share" for gate in gates)
        algorithms = {setup.train.algorithm for setup in self.expansion.setups}
        supervised = SFT_CURVES if SFT in algorithms else ()
        if algorithms == {SFT}:
            return supervised
        if "ppo" in algorithms:
            rewarded: tuple[str, ...] = (*PPO_CURVES, *pass_shares)
        else:
            kl = ("kl",) if any(logs_kl(setup.train) for setup in self.expansion.setups) else ()
            rewarded = (*CURVES, *kl, *pass_shares)
        return tuple(dict.fromkeys([*rewarded, *supervised]))

    def _code(self, stage: str, package: str, kinds: Any) -> str:
        return self.inputs.code([stage, *(f"{package}.{kind}" for kind in sorted(set(kinds)))])


def _longest(setup: Setup) -> int:
    return setup.train.max_completion_length if isinstance(setup.train, SampledSettings) else 1


def example_cards(of: Experiment, reward: str, data: TrainData, inputs: Inputs) -> tuple[ExampleCard, ...]:
    """A reward's examples, each with the row that it names or brings along. The rules have held: named rows exist."""
    examples = of.spec.rewards[reward].examples
    rows = inputs.data(data.path).rows if any(isinstance(example.row, str) for example in examples) else {}
    return tuple(
        ExampleCard(
            completion=example.completion,
            row=rows[example.row] if isinstance(example.row, str) else example.row,
            expect=example.expect,
            truncated=example.truncated,
            tokens=example.tokens,
        )
        for example in examples
    )


def _score(gate: GateCard) -> GateCard:
    """A gate as a score of its own: what it would decide in a reward does not matter."""
    return gate.model_copy(update=DECISIONS)


def _health_gate(name: str, rule: Any) -> HealthGate:
    if rule == "not persistent":
        return HealthGate(name=name, rule="not_persistent")
    if rule == "complete":
        return HealthGate(name=name, rule="complete")
    return HealthGate(
        name=name,
        rule="below" if rule.below is not None else "above",
        metric=name,
        bound=rule.below if rule.below is not None else rule.above,
        except_null_controls=rule.except_null_controls,
    )
