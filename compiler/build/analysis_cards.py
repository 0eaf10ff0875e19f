"""Experiment -> the cards of analysis and of the page, for trained and for imported runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, get_args

from compiler.build.difference import differences
from compiler.build.imports import section
from compiler.build.inputs import Inputs
from compiler.build.interpretation import cited, path_beside, read_beside
from compiler.build.logged import logged_by_any, logs_kl
from compiler.build.stops import expectations, stop_rules
from compiler.language import experiment as specs
from compiler.language.expand import Expansion, RewardUse, Run, Setup
from compiler.language.experiment import Experiment, with_profile
from compiler.language.health_profiles import detectors, named, profile_of
from compiler.language.outside import OutsideSpec
from compiler.problems import shown
from stages.contracts.algorithms import ALGORITHMS, DEFAULT, SFT
from stages.contracts.analysis_card import (
    Asked,
    ConcludeCard,
    ConditionCard,
    ConditionProfile,
    DrawCard,
    RunRef,
    ScreenCard,
    Windows,
)
from stages.contracts.artifact import Artifact, ArtifactError
from stages.contracts.formulas import logged_inputs
from stages.contracts.page_card import (
    POINTS,
    Action,
    ChangeWords,
    ClaimText,
    ComparedWith,
    Contingency,
    PageCard,
    PageLayout,
    ShownDetector,
    column_statistic,
)
from stages.contracts.plugin import DETECTORS
from stages.contracts.reward import Phase

P = TypeVar("P", Action, Contingency)


def analysis_cards(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> dict[str, Artifact]:
    """Path below the experiment's folder -> card of each stage after training."""
    cards = _AnalysisCards(experiment, expansion, inputs)
    return {
        "analysis/screen.card.json": cards.screen(),
        "analysis/conclude.card.json": cards.conclude(),
        "analysis/draw.card.json": cards.draw(),
        "page.card.json": cards.page(),
    }


def condition_card(setup: Setup) -> ConditionCard:
    """A condition as analysis sees it."""
    return ConditionCard(
        name=setup.name,
        role=setup.condition.role,
        reward=setup.reward.name,
        gates=tuple(use.card.name for use in setup.reward.gates),
        supervised=setup.train.algorithm == SFT,
    )


def run_ref(run: Run) -> RunRef:
    """A run as analysis sees it."""
    return RunRef(name=run.name, condition=run.setup.name, seed=run.seed, target_steps=run.setup.train.max_steps)


class _AnalysisCards:
    def __init__(self, experiment: Experiment, expansion: Expansion, inputs: Inputs) -> None:
        self.experiment, self.spec, self.expansion, self.inputs = experiment, experiment.spec, expansion, inputs
        self.read = section(experiment) if isinstance(experiment.spec, OutsideSpec) else None
        self.shared: dict[str, Any] = {
            "experiment": experiment.name,
            "conditions": tuple(map(condition_card, expansion.setups)),
            "runs": tuple(map(run_ref, expansion.runs)),
            "derived": experiment.spec.metrics,
        }
        self.scores, self.curves = score_names(expansion), curve_names(experiment, expansion)

    def screen(self) -> ScreenCard:
        first, others = self._profiles()
        health = self.spec.health
        selected = {profile: detectors(profile, health.detectors) for profile in (first, *others.values())}
        named = [claim.rule.metric for claim in self.spec.claims if not claim.rule.metric.startswith("evaluation.")]
        claimed = {*named, *(metric for name in named for metric in logged_inputs(name, self.spec.metrics))}
        kinds = sorted({detector.kind for cards in selected.values() for detector in cards})
        return ScreenCard(
            **self.shared,
            profile=first,
            detectors=selected[first],
            others=tuple(ConditionProfile(condition=name, profile=kind, detectors=selected[kind]) for name, kind in others.items()),
            gates=health.gates,
            claimed=tuple(sorted(claimed)),
            windows=Windows(),
            code=self.inputs.code(["stages.analyse.screen", *(f"{DETECTORS}.{kind}" for kind in kinds)]),
        )

    def _profiles(self) -> tuple[str, dict[str, str]]:
        """The health profile of the experiment's first condition with a reward, and conditions that have another one."""
        written, setups = self.spec.health.profile, self.expansion.setups
        first = next((setup for setup in setups if setup.train.algorithm != SFT), setups[0])
        each = {setup.name: profile_of(written, setup.train.algorithm) for setup in setups}
        return each[first.name], {name: profile for name, profile in each.items() if profile != each[first.name]}

    def conclude(self) -> ConcludeCard:
        setups, shown = self.expansion.setups, [question.show for question in self.spec.questions]
        asked = {"anomalies" if isinstance(show, ShownDetector) else show for show in shown}
        return ConcludeCard(
            **self.shared,
            evaluation=self.scores,
            metrics=self.metrics(),
            points=self._points(),
            claims=tuple(claim.rule for claim in self.spec.claims),
            windows=Windows(),
            asked=tuple(section for section in get_args(Asked) if section in asked),
            expectations=expectations(self.experiment),
            stops={setup.name: rules for setup in setups if (rules := stop_rules(self.experiment, setup))},
            weights={setup.name: weights for setup in setups if (weights := _weights(setup.reward))},
            reward_ranges={setup.name: ends for setup in setups if (ends := _reward_range(setup.reward)) != (0.0, 1.0)},
            code=self.inputs.code(["stages.analyse.conclude"]),
        )

    def metrics(self) -> tuple[str, ...]:
        """Metrics that get findings of their own: curves, what questions are about, and columns of tables."""
        logged = logged_by_any(self.expansion.setups)
        if self.read:
            return tuple(logged)
        about = ["loss" if question.show == "loss" else getattr(question.show, "metric", "") for question in self.spec.questions]
        about += [column_statistic(column)[0] for column in (*self.spec.page.tables.conditions, *self.spec.page.tables.seeds)]
        return tuple(dict.fromkeys([*self.curves, *(name for name in about if name in logged)]))

    def _points(self) -> tuple[str, ...]:
        """Metrics of which a table shows five points of training."""
        tables = self.spec.page.tables
        columns = map(column_statistic, (*tables.conditions, *tables.seeds))
        return tuple(dict.fromkeys(metric for metric, statistic in columns if statistic == POINTS))

    def draw(self) -> DrawCard:
        code = self.inputs.code(["stages.analyse.draw"])
        return DrawCard(**self.shared, evaluation=self.scores, curves=self.curves, code=code)

    def page(self) -> PageCard:
        spec, changed = self.spec, parent_changes(self.experiment)
        prose = path_beside(self.experiment)
        proper = (self.experiment.proper or self.experiment).spec
        first, others = self._profiles()
        profiles = "; ".join([first, *(f"{name}: {profile}" for name, profile in others.items())])
        return PageCard(
            **self.shared,
            title=spec.title.strip(),
            question=_one_line(spec.question),
            owner=spec.owner,
            tags=spec.tags,
            spec=self.experiment.document.file,
            prose=prose.as_posix() if prose else None,
            cited=self._cited(),
            profile=self.experiment.profile,
            evidence=spec.evidence,
            health_profile=named(profiles, spec.health.detectors),
            claims=tuple(ClaimText(id=claim.id, says=_one_line(claim.says), answers=claim.answers) for claim in spec.claims),
            evaluation=self.scores,
            curves=self.curves,
            parent=spec.parent,
            changes=changed[1],
            changed_from=changed[0],
            because=self._because(),
            compared=tuple(self._compared(name) for name in spec.compare),
            hypothesis=_one_line(spec.hypothesis),
            questions=tuple(question.model_copy(update={"ask": _one_line(question.ask)}) for question in spec.questions),
            actions=tuple(sorted(map(_with_short_texts, proper.actions), key=lambda action: action.priority)),
            contingency=tuple(map(_with_short_texts, proper.contingency)),
            layout=PageLayout(**{key: getattr(spec.page, key) for key in PageLayout.model_fields}),
            hypotheses={name: text for name, condition in spec.conditions.items() if (text := _one_line(condition.hypothesis))},
            run_pages=spec.page.runs,
            **({} if self.experiment.profile else {"status": spec.status, "decision": spec.decision}),
            **({"unavailable": self.read.unavailable} if self.read else {}),
            code=self.inputs.code(["stages.publish.page"]),
        )

    def _compared(self, name: str) -> ComparedWith:
        """A profile is held against the other experiment's profile of the same name, where it has one."""
        read, document = self.inputs.document, self.inputs.document(Path("specs") / f"{name}.yaml")
        profile = self.experiment.profile if self.experiment.profile in specs.profiles(document, name, read) else None
        return ComparedWith(experiment=name, changes=_change_words(specs.experiment(document, name, profile, read), self.experiment))

    def _cited(self) -> tuple[str, ...]:
        """A broken interpretation names nothing: `check` warns, and the page stage refuses it."""
        with suppress(ArtifactError):
            if interpretation := read_beside(self.experiment):
                return cited(self.experiment, interpretation)
        return ()

    def _because(self) -> dict[str, tuple[str, ...]]:
        """Of conditions whose reward has examples with a reason."""
        texts = {name: tuple(_one_line(example.because) for example in reward.examples) for name, reward in self.spec.rewards.items()}
        rewards = {setup.name: texts.get(setup.reward.declared or "", ()) for setup in self.expansion.setups}
        return {name: reasons for name, reasons in rewards.items() if any(reasons)}


def curve_names(experiment: Experiment, expansion: Expansion) -> tuple[str, ...]:
    """Metrics whose curves are drawn, in their order."""
    setups = expansion.setups
    if isinstance(experiment.spec, OutsideSpec):  # mapped metrics, the usual ones first; a summary has no curves
        read = section(experiment)
        usual = [name for name in ALGORITHMS[DEFAULT].curves if name != "kl" and name in read.metrics]
        return () if read.format == "summary" else tuple(dict.fromkeys([*usual, *logged_by_any(setups)]))
    gates = dict.fromkeys(use.card.name for setup in setups if setup.reward.declared for use in setup.reward.gates)
    pass_shares = tuple(f"gate.{gate}.pass_share" for gate in gates)
    rows = [ALGORITHMS[setup.train.algorithm] for setup in setups]
    without = () if any(logs_kl(setup.train) for setup in setups) else ("kl",)
    rewarded, supervised = ([name for row in rows if row.is_rewarded is kind for name in row.curves] for kind in (True, False))
    names = dict.fromkeys([*rewarded, *pass_shares, *supervised, *experiment.spec.metrics])
    return tuple(name for name in names if name not in without)


def score_names(expansion: Expansion) -> tuple[str, ...]:
    """Scores of the shared evaluation, in their order."""
    return (*(use.card.name for use in expansion.scores), *(combined.name for combined in expansion.combined))


def figure_names(experiment: Experiment, expansion: Expansion) -> list[str]:
    """Figures that the stage draw makes."""
    funnels = [f"funnel-{card.name}" for card in map(condition_card, expansion.setups) if card.gates]
    return [
        *(f"evaluation-{name}{measure}" for name in score_names(expansion) for measure in ("", "-score")),  # the mean of graded scores
        *(f"curves-{name}" for name in curve_names(experiment, expansion)),
        *funnels,
    ]


def _weights(reward: RewardUse) -> tuple[Phase, ...]:
    """Of a weighted reward: its weights from each share of training on."""
    if reward.rules.combine != "weighted":
        return ()
    own = {gate.card.name: gate.card.weight or 0.0 for gate in reward.gates}
    phases = [Phase.model_validate({"from": 0.0, "weights": own}), *sorted(reward.rules.curriculum, key=lambda phase: phase.begins)]
    return tuple(phase for phase, after in zip(phases, [*phases[1:], None], strict=True) if after is None or after.begins > phase.begins)


def _reward_range(reward: RewardUse) -> tuple[float, float]:
    """The lowest and the highest reward that a completion can get."""
    decided = [value for gate in reward.gates for value in (gate.card.on_pass, gate.card.on_fail) if value is not None]
    low, high = min([0.0, *decided]), max([1.0, *decided])
    if reward.rules.cap is not None and low >= 0:
        high = min(high, max(reward.rules.cap, 0.0))
    if reward.invert:
        low, high = 1 - high, 1 - low
    scale = reward.rules.scale
    return (low, high) if scale is None else (scale.low + low * (scale.high - scale.low), scale.low + high * (scale.high - scale.low))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _with_short_texts(plan: P) -> P:
    """An action or a contingency plan with its texts on one line."""
    return plan.model_copy(update={key: _one_line(text) for key in ("do", "because") if (text := getattr(plan, key, None)) is not None})


def parent_changes(experiment: Experiment) -> tuple[str, tuple[ChangeWords, ...]]:
    """Name of the parent's profile that a profile is compared with, else empty; and the whole difference. ("", ()) without a parent."""
    parent = experiment.proper.parent if experiment.proper else experiment.parent
    if parent is None:
        return "", ()
    if experiment.profile and experiment.profile in parent.spec.profiles:
        parent = with_profile(parent, experiment.profile)
    return parent.name if parent.profile else "", _change_words(parent, experiment)


def _change_words(before: Experiment, after: Experiment) -> tuple[ChangeWords, ...]:
    changes = differences(before, after)
    return tuple(ChangeWords(key=change.key, before=shown(change.before), after=shown(change.after)) for change in changes)
