"""Experiment -> the cards of analysis and of the page, for trained and for imported runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

from compiler.build.difference import differences, shown
from compiler.build.inputs import Inputs
from compiler.build.logged import logs_kl
from compiler.build.questions import asked, asked_metrics, metrics
from compiler.build.stops import expect_cards, stop_card
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.health_profiles import detectors, named, profile_of
from stages.contracts.algorithms import ALGORITHMS, SFT
from stages.contracts.analysis_card import (
    ConcludeCard,
    ConditionCard,
    ConditionProfile,
    DrawCard,
    HealthGate,
    RunRef,
    ScreenCard,
    Windows,
)
from stages.contracts.artifact import Artifact
from stages.contracts.page_card import Action, ChangeWords, ClaimText, Contingency, PageCard
from stages.contracts.plugin import DETECTORS
from stages.contracts.rule_card import ConditionStop

P = TypeVar("P", Action, Contingency)


class AnalysisCards:
    """The cards of the stages after training, with the parts that they share made once."""

    def __init__(self, of: Experiment, expansion: Expansion, inputs: Inputs) -> None:
        self.of, self.spec, self.expansion, self.inputs = of, of.spec, expansion, inputs
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
        self.questions = tuple(question.model_copy(update={"ask": " ".join(question.ask.split())}) for question in of.spec.questions)
        self.scores = (*(use.card.name for use in expansion.scores), *(combined.name for combined in expansion.combined))

    def single(self, page: PageCard) -> dict[str, Artifact]:
        """Path below the experiment's folder -> card; `page` is one of them."""
        return {
            "analysis/screen.card.json": self.screen(),
            "analysis/conclude.card.json": self.conclude(),
            "analysis/draw.card.json": self.draw(),
            "page.card.json": page,
        }

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
            code=self.inputs.code(["stages.analyse.screen", *(f"{DETECTORS}.{kind}" for kind in sorted(set(kinds)))]),
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
            claims=tuple(claim.rule for claim in self.spec.claims),
            windows=Windows(),
            asked=asked(self.questions),
            expectations=expect_cards(self.of, self.spec.expect),
            stops=tuple(
                ConditionStop(condition=setup.name, stop=stop) for setup in self.expansion.setups if (stop := stop_card(self.of, setup))
            ),
            code=self.inputs.code(["stages.analyse.conclude"]),
        )

    def draw(self) -> DrawCard:
        return DrawCard(
            experiment=self.of.name,
            conditions=self.conditions,
            runs=self.runs,
            evaluation=self.scores,
            curves=self.curves(),
            code=self.inputs.code(["stages.analyse.draw"]),
        )

    def page(self) -> PageCard:
        prose = Path(self.of.document.file).with_suffix(".md")
        proper = (self.of.proper or self.of).spec
        return PageCard(
            experiment=self.of.name,
            title=self.spec.title.strip(),
            question=" ".join(self.spec.question.split()),
            owner=self.spec.owner,
            tags=self.spec.tags,
            spec=self.of.document.file,
            prose=prose.as_posix() if os.path.isfile(prose) else None,
            profile=self.of.profile,
            health_profile=self._profile_words(),
            conditions=self.conditions,
            runs=self.runs,
            claims=tuple(ClaimText(id=claim.id, says=" ".join(claim.says.split())) for claim in self.spec.claims),
            evaluation=self.scores,
            curves=self.curves(),
            parent=self.spec.parent,
            changes=parent_changes(self.of),
            hypothesis=" ".join(self.spec.hypothesis.split()),
            questions=self.questions,
            actions=tuple(sorted(map(_on_one_line, proper.actions), key=lambda action: action.priority)),
            contingency=tuple(map(_on_one_line, proper.contingency)),
            run_pages=self.spec.page.runs,
            code=self.inputs.code(["stages.publish.page"]),
        )

    def _profile_words(self) -> str:
        first, others = self.profiles()
        words = "; ".join([first, *(f"{name}: {profile}" for name, profile in others.items())])
        return named(words, self.spec.health.detectors)

    def curves(self) -> tuple[str, ...]:
        gates = dict.fromkeys(use.card.name for setup in self.expansion.setups if setup.reward.declared for use in setup.reward.gates)
        pass_shares = tuple(f"gate.{gate}.pass_share" for gate in gates)
        rows = [ALGORITHMS[setup.train.algorithm] for setup in self.expansion.setups]
        without = () if any(logs_kl(setup.train) for setup in self.expansion.setups) else ("kl",)
        rewarded, supervised = ([name for row in rows if row.is_rewarded is kind for name in row.curves] for kind in (True, False))
        return tuple(name for name in dict.fromkeys([*rewarded, *pass_shares, *supervised]) if name not in without)


def _on_one_line(plan: P) -> P:
    """An action or a contingency plan with its texts on one line."""
    return plan.model_copy(
        update={key: " ".join(text.split()) for key in ("do", "because") if (text := getattr(plan, key, None)) is not None}
    )


def parent_changes(of: Experiment) -> tuple[ChangeWords, ...]:
    """The whole difference to the parent; () without one."""
    changes = differences(of.parent, of.proper or of) if of.parent is not None else ()
    return tuple(ChangeWords(key=change.key, before=shown(change.before), after=shown(change.after)) for change in changes)


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
