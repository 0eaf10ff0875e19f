"""Rules about claims: what could never be decided, or would be decided wrongly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from compiler.build.imports import ImportedTraining
from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_all
from compiler.document.node import Node
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.language.spec_imports import OutsideSpec
from compiler.language.spec_judged import Claim
from compiler.problems import listed, nearest
from stages.contracts.algorithms import SFT
from stages.contracts.diagnostic import Diagnostic, Note
from stages.contracts.history import EVALUATION_MEASURES, POLICY_LOSSES, REWARD_UNITS, SAMPLED, metric

FEWEST_SEEDS = 3


def claims_name_what_exists(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Conditions and metrics."""
    setups = {setup.name: setup for setup in expansion.setups}
    scores = [*(use.card.name for use in expansion.scores), *(combined.name for combined in expansion.combined)]
    complete = of.spec.evaluation is None or len(scores) == len(of.spec.evaluation.scores)
    for index, claim in enumerate(of.spec.claims):
        node = of.node("claims", index)
        unknown = list(_unknown_conditions(of, claim, node))
        yield from unknown
        if claim.contrast and claim.contrast.condition == claim.contrast.against:
            yield Diagnostic(
                "E303",
                f"`{claim.contrast.against}` is compared with itself",
                why="the difference is zero whatever happens",
                fix=f"against: {next((name for name in of.spec.conditions if name != claim.contrast.condition), '...')}",
                place=of.node("claims", index, "contrast", "against").place,
            )
        sides = [setups[name] for name in _sides(claim) if name in setups]
        if not unknown and complete and len(sides) == len(_sides(claim)):
            yield from _metric(claim, node, sides, scores)
            yield from _comparable(claim, node, sides)
            yield from _progress(claim, node, sides)


def _sides(claim: Claim) -> list[str]:
    return [claim.contrast.condition, claim.contrast.against] if claim.contrast else [claim.condition] if claim.condition else []


def _unknown_conditions(of: Experiment, claim: Claim, node: Node) -> Iterator[Diagnostic]:
    places = [node.get("contrast", "condition"), node.get("contrast", "against")] if claim.contrast else [node.get("condition")]
    for place in places:
        if place is not None and place.value not in of.spec.conditions:
            meant = nearest(place.value, of.spec.conditions)
            yield Diagnostic(
                "E302",
                f"no condition `{place.value}`" + (f", did you mean `{meant}`?" if meant else ""),
                why=f"a claim is about conditions of this spec: {listed(of.spec.conditions)}",
                fix=f"write `{meant or next(iter(of.spec.conditions))}`",
                place=place.place,
            )


def _metric(claim: Claim, node: Node, sides: list[Setup], scores: list[str]) -> Iterator[Diagnostic]:
    known = [*(f"evaluation.{score}.{measure}" for score in scores for measure in EVALUATION_MEASURES), *logged_by_all(sides)]
    if claim.metric in known:
        return
    meant = nearest(claim.metric, known)
    if isinstance(sides[0].train, ImportedTraining):
        evaluation = "there is no model to evaluate, and " if claim.metric.startswith("evaluation.") else ""
        why = f"{evaluation}what is read of the runs' logs is {listed(known)}"
    elif claim.metric.startswith("evaluation."):
        why = f"the evaluation scores {listed(scores)}" if scores else "this spec has no evaluation"
    elif claim.metric == "kl":
        why = "kl is logged only when `beta` is above 0"
    elif (meaning := metric(claim.metric)) and meaning.algorithms and sides[0].train.algorithm not in meaning.algorithms:
        why = f"{listed(meaning.algorithms)} log it, and this spec trains with {sides[0].train.algorithm}"
    elif len(sides) > 1 and claim.metric in {name for side in sides for name in logged_by_all([side])}:
        why = "only one of the two conditions logs it, so there is nothing to compare"
    else:
        why = "a claim on a metric that nothing produces can never be decided"
    written = node.get("metric")
    example = meant or next((name for name in known if name.endswith("pass_share")), known[0])
    yield Diagnostic(
        "E305",
        f"nothing produces the metric `{claim.metric}`" + (f", did you mean `{meant}`?" if meant else ""),
        why=why,
        fix=f"write `{example}`",
        place=written.place if written else None,
    )


def _comparable(claim: Claim, node: Node, sides: list[Setup]) -> Iterator[Diagnostic]:
    meaning = metric(claim.metric)
    if meaning is None or meaning.unit not in REWARD_UNITS or len(sides) < 2 or sides[0].reward.name == sides[1].reward.name:
        return
    if claim.statistic == "change" and sides[1].condition.role == "null_control":
        return
    if any(side.train.algorithm == SFT for side in sides):  # it has no reward at all, and E305 says so
        return
    written = node.get("metric")
    yield Diagnostic(
        "E308",
        f"`{sides[0].name}` and `{sides[1].name}` have different rewards, so their `{claim.metric}` cannot be compared",
        why="rewards of different functions are numbers on different scales; a higher one says nothing",
        fix="claim a score of the shared evaluation, or `statistic: change` against the null control",
        place=written.place if written else None,
        notes=tuple(Note(side.reward.node.place, f"the reward of `{side.name}`: {side.reward.name}") for side in sides),
    )


def _progress(claim: Claim, node: Node, sides: list[Setup]) -> Iterator[Diagnostic]:
    sampled = [side for side in sides if side.train.algorithm in SAMPLED]
    if claim.metric not in POLICY_LOSSES or not sampled:
        return
    written = node.get("metric")
    yield Diagnostic(
        "E464",
        f"the claim `{claim.id}` rests on `{claim.metric}`, which is no progress",
        why="on-policy this loss is minus the covariance of advantage and length plus beta x KL: it moves either way while a policy learns",
        fix="claim a score of the shared evaluation, `reward` or `zero_signal_share`; the loss stays on the page",
        place=written.place if written else None,
    )


def claims_have_seeds(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Enough for an interval, and no more than there are. A profile decides nothing, so its claims may stay void."""
    for index, claim in enumerate(of.spec.claims):
        written = of.root.get("claims", index, "needs", "seeds")
        place = written.place if written else of.node("claims", index, "id").place
        if claim.needs.seeds < FEWEST_SEEDS:
            yield Diagnostic(
                "E307",
                f"the claim `{claim.id}` would be decided by {claim.needs.seeds} seed{'s' if claim.needs.seeds > 1 else ''}",
                why=f"the seed is the unit: an interval over fewer than {FEWEST_SEEDS} seeds says next to nothing",
                fix=f"needs: {{seeds: {FEWEST_SEEDS}}}",
                place=place,
            )
        elif claim.needs.seeds > len(set(of.spec.seeds)) and of.profile is None:
            seeds = sorted(set(of.spec.seeds))
            more = [*seeds, *(seed for seed in range(1, claim.needs.seeds + len(seeds) + 1) if seed not in seeds)][: claim.needs.seeds]
            yield Diagnostic(
                "E306",
                f"the claim `{claim.id}` needs {claim.needs.seeds} seeds, and the experiment has {len(seeds)}",
                why="it could only be void",
                fix=f"seeds: {sorted(more)}" + (f", or needs: {{seeds: {len(seeds)}}}" if len(seeds) >= FEWEST_SEEDS else ""),
                place=place,
                notes=(Note(of.node("seeds").key, f"{len(seeds)} seed{'s' if len(seeds) != 1 else ''}"),),
            )


def contrasts_have_a_null_control(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Its movement is the noise floor of every contrast."""
    roles = Counter(condition.role for condition in of.spec.conditions.values())
    if any(claim.contrast for claim in of.spec.claims) and not roles["null_control"]:
        is_outside = isinstance(of.spec, OutsideSpec)  # its rewards are names: octavo does not pay them
        yield Diagnostic(
            "W304",
            "no condition is a null control",
            why="training without a signal also moves a model; without a null control that movement looks like an effect",
            fix=f"zero: {{reward: {'zero' if is_outside else '{constant: 0.0}'}, role: null_control}}",
            place=of.node("conditions").key,
            severity="warning",
        )


RULES = (claims_name_what_exists, claims_have_seeds, contrasts_have_a_null_control)
