"""Other experiments that a spec names: a claim can be held against a condition of another one, and experiments are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.build.analysis_cards import condition_card, run_ref
from compiler.build.cards import Cards, evaluate_card
from compiler.build.epochs import expanded
from compiler.build.imports import expand_imports
from compiler.build.inputs import Inputs
from compiler.build.pipeline import SPECS
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment, experiment
from compiler.language.outside import OutsideSpec
from compiler.problems import Rejected, errors
from stages.contracts.analysis_card import OtherCondition
from stages.contracts.claim import ClaimRule
from stages.contracts.evaluation import EvaluateCard, same_scores


@dataclass(frozen=True)
class Other:
    """Another experiment, as far as what is said of it needs it."""

    experiment: Experiment
    expansion: Expansion
    evaluate: EvaluateCard | None

    def setup(self, condition: str) -> Setup | None:
        return next((setup for setup in self.expansion.setups if setup.name == condition), None)


def read_other(stem: str, profile: str | None, inputs: Inputs) -> Other:
    """Raises Rejected with the problems of its own file."""
    spec = experiment(inputs.document(SPECS / f"{stem}.yaml"), stem, profile, inputs.document)
    if isinstance(spec.spec, OutsideSpec):
        expansion = expand_imports(spec, inputs.lock().snapshots, inputs.sources_may_be_absent).expansion
    else:
        expansion = expanded(spec, inputs)
    if errors(expansion.problems):
        raise Rejected(expansion.problems)
    return Other(spec, expansion, evaluate_card(spec, expansion, inputs))


def has_same_reward(one: Setup, other: Setup) -> bool:
    """Whether two conditions of two experiments are paid alike, whatever their rewards are called. Of rewards that octavo does not pay it
    knows the name only."""
    if not (one.reward.gates and other.reward.gates):
        return one.reward.name == other.reward.name
    return one.reward.card().model_copy(update={"name": ""}) == other.reward.card().model_copy(update={"name": ""})


def with_others(cards: Cards, own: Expansion, others: Mapping[str, Other]) -> Cards:
    """Cards on which claims and the analysis know the other experiments' conditions. `others`: by stem. The checks have held."""
    setups, named = {setup.name: setup for setup in own.setups}, dict[str, OtherCondition]()
    claims: list[ClaimRule] = []
    for claim in cards.conclude.claims:
        if (elsewhere := claim.elsewhere) is None or claim.contrast is None:
            claims.append(claim)
            continue
        other = others[elsewhere.experiment]
        meant = elsewhere.model_copy(update={"experiment": other.experiment.name})
        claims.append(claim.model_copy(update={"contrast": claim.contrast.model_copy(update={"against": meant})}))
        named[meant.name] = _other_condition(cards.evaluate, setups[claim.sides[0]], other, elsewhere.condition)
    conclude = cards.conclude.model_copy(update={"claims": tuple(claims), "elsewhere": tuple(named.values())})
    return replace(cards, single={**cards.single, "analysis/conclude.card.json": conclude})


def _other_condition(evaluate: EvaluateCard | None, own: Setup, other: Other, condition: str) -> OtherCondition:
    setup, name = other.setup(condition), other.experiment.name
    assert setup is not None
    reward = setup.reward.name if has_same_reward(own, setup) else f"{name}:{setup.reward.name}"
    same = same_scores(evaluate, other.evaluate)
    return OtherCondition(
        experiment=name,
        condition=condition_card(setup).model_copy(update={"reward": reward}),
        runs=tuple(run_ref(run) for run in other.expansion.runs if run.setup.name == condition),
        evaluation=same,
        imported=isinstance(other.experiment.spec, OutsideSpec),
    )
