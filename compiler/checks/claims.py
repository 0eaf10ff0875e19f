"""Checks of claims: what could never be decided, or would be decided wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.build.imports import ImportedTraining
from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_all
from compiler.document.node import Node
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.language.outside import OutsideSpec
from compiler.problems import listed, problem, unknown
from stages.contracts.algorithms import SFT
from stages.contracts.claim import Claim
from stages.contracts.diagnostic import Diagnostic, Note, Place
from stages.contracts.history import EVALUATION_MEASURES, POLICY_LOSSES, REWARD_UNITS, SAMPLED, metric

FEWEST_SEEDS = 3


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    scores = [*(use.card.name for use in expansion.scores), *(combined.name for combined in expansion.combined)]
    complete = experiment.spec.evaluation is None or len(scores) == len(experiment.spec.evaluation.scores)
    conditions, setups = experiment.spec.conditions, {setup.name: setup for setup in expansion.setups}
    for index, claim in enumerate(experiment.spec.claims):
        node = experiment.node("claims", index)
        yield from _seeds(claim, node, experiment)
        written = [node.get(*path) for path in (("contrast", "condition"), ("contrast", "against"), ("condition",))]
        named = [inner for inner in written if inner is not None]
        absent = [unknown("E302.claim", inner.value, conditions, inner.place) for inner in named if inner.value not in conditions]
        yield from absent
        if claim.contrast and claim.contrast.condition == claim.contrast.against:
            other = next((name for name in conditions if name != claim.contrast.condition), "...")
            place = experiment.node("claims", index, "contrast", "against").place
            yield problem("E303", place, condition=claim.contrast.against, other=other)
        sides = [setups[inner.value] for inner in named if inner.value in setups]
        if not absent and complete and len(sides) == len(named):
            place = experiment.node("claims", index, "metric").place
            yield from _metric(claim, place, sides, scores)
            yield from _comparable(claim, place, sides)
            if claim.metric in POLICY_LOSSES and any(side.train.algorithm in SAMPLED for side in sides):
                yield problem("E464", place, claim=claim.id, metric=claim.metric)
    if any(claim.contrast for claim in experiment.spec.claims):
        yield from _null_control(experiment)


def _metric(claim: Claim, place: Place, sides: list[Setup], scores: list[str]) -> Iterator[Diagnostic]:
    """E305."""
    known = [*(f"evaluation.{score}.{measure}" for score in scores for measure in EVALUATION_MEASURES), *logged_by_all(sides)]
    if claim.metric in known:
        return
    is_evaluation = claim.metric.startswith("evaluation.")
    if isinstance(sides[0].train, ImportedTraining):
        why = ("there is no model to evaluate, and " if is_evaluation else "") + f"what is read of the runs' logs is {listed(known)}"
    elif is_evaluation:
        why = f"the evaluation scores {listed(scores)}" if scores else "this spec has no evaluation"
    elif metric(claim.metric) is not None:
        why = f"not every run of {' and '.join(f'`{side.name}`' for side in sides)} logs it"
    else:
        why = "a claim on a metric that nothing produces can never be decided"
    example = next((name for name in known if name.endswith("pass_share")), known[0])
    yield unknown("E305", claim.metric, known, place, why=why, example=example)


def _comparable(claim: Claim, place: Place, sides: list[Setup]) -> Iterator[Diagnostic]:
    """E308: a contrast of rewards that are numbers on different scales."""
    meaning = metric(claim.metric)
    if meaning is None or meaning.unit not in REWARD_UNITS or len(sides) < 2 or sides[0].reward.name == sides[1].reward.name:
        return
    is_change = claim.statistic == "change" and sides[1].condition.role == "null_control"
    if not is_change and all(side.train.algorithm != SFT for side in sides):  # without a reward E305 says it
        refused = problem("E308", place, condition=sides[0].name, against=sides[1].name, metric=claim.metric)
        notes = (Note(side.reward.node.place, f"the reward of `{side.name}`: {side.reward.name}") for side in sides)
        yield replace(refused, notes=tuple(notes))


def _seeds(claim: Claim, node: Node, experiment: Experiment) -> Iterator[Diagnostic]:
    """Enough for an interval, and no more than there are. A profile decides nothing, so its claims may stay void."""
    needed, seeds = claim.needs.seeds, sorted(set(experiment.spec.seeds))
    written = node.get("needs", "seeds") or node.get("id")
    place = written.place if written else node.place
    if needed < FEWEST_SEEDS:
        yield problem("E307", place, claim=claim.id, seeds=_counted(needed), fewest=FEWEST_SEEDS)
    elif needed > len(seeds) and experiment.profile is None:
        more = [*seeds, *(seed for seed in range(1, needed + len(seeds) + 1) if seed not in seeds)][:needed]
        yield problem(
            "E306",
            place,
            note=experiment.node("seeds").key,
            claim=claim.id,
            needed=needed,
            count=len(seeds),
            seeds=_counted(len(seeds)),
            more=", ".join(map(str, sorted(more))),
            **{"or": f", or needs: {{seeds: {len(seeds)}}}" if len(seeds) >= FEWEST_SEEDS else ""},
        )


def _counted(seeds: int) -> str:
    return f"{seeds} seed{'s' if seeds != 1 else ''}"


def _null_control(experiment: Experiment) -> Iterator[Diagnostic]:
    """W304: its movement is the noise floor of every contrast."""
    if all(condition.role != "null_control" for condition in experiment.spec.conditions.values()):
        # rewards of runs from outside are names: octavo does not pay them
        reward = "zero" if isinstance(experiment.spec, OutsideSpec) else "{constant: 0.0}"
        yield problem("W304", experiment.node("conditions").key, reward=reward)
