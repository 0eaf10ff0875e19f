"""Checks of what judges runs: an evaluation with data, health gates that can pass and fail, questions, plans and claims that an answer
exists for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from compiler.build.imports import ImportedTraining
from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_all, logged_by_any, question_metrics
from compiler.document.node import Node
from compiler.document.validate import place_of, validated
from compiler.language.algorithms import train_settings
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.language.expressions import as_comparison, is_decided
from compiler.language.family import with_changes
from compiler.language.health_profiles import PROFILES, profile_of
from compiler.language.outside import OutsideSpec
from compiler.problems import Rejected, errors, listed, nearest, problem, unknown
from stages.contracts.algorithms import SFT
from stages.contracts.analysis_card import Bound
from stages.contracts.claim import Claim
from stages.contracts.diagnostic import Diagnostic, Note, Place
from stages.contracts.formulas import logged_inputs
from stages.contracts.history import EVALUATION_MEASURES, POLICY_LOSSES, REWARD_UNITS, SAMPLED, metric
from stages.contracts.page_card import ShownDetector, ShownMetric
from stages.contracts.plugin import DETECTORS, kinds, load


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    if experiment.spec.evaluation is not None and experiment.spec.data.evaluation is None:
        yield problem("E324", experiment.node("evaluation").key)
    yield from health(experiment, expansion, inputs)
    yield from answers(experiment, expansion, inputs)


def health(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """A known profile; detectors with settings that they have; each gate's rule can pass and can fail."""
    section = experiment.spec.health
    if section.profile is not None and section.profile not in PROFILES:
        yield unknown("E328", section.profile, PROFILES, experiment.node("health", "profile").place, all=", ".join(PROFILES))
    detectors = kinds(DETECTORS)
    for kind in section.detectors:
        node = experiment.node("health", "detectors", kind)
        if kind in detectors:
            yield from validated(load(DETECTORS, kind).Settings, node, f"health.detectors.{kind}")[1]
        else:
            yield unknown("E218", kind, detectors, node.key or node.place, all=", ".join(detectors))
    own = {"not persistent": "nonfinite", "complete": "steps"}
    logged = logged_by_any(expansion.setups)
    for name, rule in section.gates.items():
        node = experiment.node("health", "gates", name)
        if isinstance(rule, Bound):
            if logged:  # otherwise no condition could be built, and its own errors say why
                yield from _bound(name, rule, node, logged)
        elif own[rule] != name:
            yield problem("E322", node.place, gate=name, rule=rule, own=own[rule])


def _bound(name: str, rule: Bound, node: Node, logged: list[str]) -> Iterator[Diagnostic]:
    meaning = metric(name)
    if meaning is None or name not in logged:
        form = "E322.algorithm" if meaning is not None and meaning.algorithms else "E322.metric"
        yield unknown(form, name, logged, node.key or node.place, algorithms=meaning.algorithms if meaning else ())
    elif meaning.share and (holds := is_decided(as_comparison(name, rule))) is not None:
        side = rule.direction
        yield problem("E315.always" if holds else "E315", (node.get(side) or node).place, metric=name, side=side, bound=rule.bound)


def answers(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E305 metrics of questions and actions, E373 plans that wait for nothing. A profile has the experiment's own."""
    if errors(expansion.problems):
        return
    spec, metrics = experiment.spec, question_metrics(expansion)
    why = "a question is answered by what some condition logs, or by a score of the shared evaluation"
    asked = [
        (question.show.metric, node.get("show", "metric"), why)
        for question, node in experiment.entries(spec.questions, "questions")
        if isinstance(question.show, ShownMetric)
    ]
    yield from _shown_detectors(experiment, expansion)
    if experiment.profile is None:
        why = "no page could show whether the action has moved it"
        for index, action in enumerate(spec.actions):
            moves = experiment.entries(action.expect, "actions", index, "expect")
            asked += [(move.metric, node.get("metric"), why) for move, node in moves]
    for name, node, why in asked:
        if node is not None and name not in metrics:
            yield unknown("E305", name, metrics, node.place, why=why, example=metrics[0])
    if experiment.profile is not None:
        return
    yield from _plans(experiment)
    for _, node in (*experiment.entries(spec.actions, "actions"), *experiment.entries(spec.contingency, "contingency")):
        change = node.get("change")
        if change is not None and change.value:
            yield from _change(experiment, change)


def _shown_detectors(experiment: Experiment, expansion: Expansion) -> Iterator[Diagnostic]:
    """E218: a question about a detector that looks at no run."""
    health = experiment.spec.health
    profiles = {profile_of(health.profile, setup.train.algorithm) for setup in expansion.setups} & {*PROFILES}
    looking = sorted({kind for profile in profiles for kind in (*PROFILES[profile], *health.detectors)})
    for question, node in experiment.entries(experiment.spec.questions, "questions"):
        if isinstance(question.show, ShownDetector) and profiles and question.show.detector not in looking:
            place = place_of(node, "show.detector", "show")
            yield unknown("E218.question", question.show.detector, looking, place, all=", ".join(looking))


def _change(experiment: Experiment, change: Node) -> Iterator[Diagnostic]:
    """E338 keys that lead nowhere, E2xx values that the language refuses. Whether it compiles is seen in the child that makes it."""
    root = experiment.root
    kept = {key: node for key, node in root.value.items() if key not in ("actions", "contingency", "questions", "profiles")}
    try:
        after = with_changes(Node(kept, root.place, root.key, root.layer), change.value.items())
    except Rejected as rejected:
        yield from rejected.diagnostics
        return
    yield from validated(type(experiment.spec), after)[1]
    train = after.get("train")
    if train is not None and not isinstance(experiment.spec, OutsideSpec):
        yield from (problem for problem in train_settings(train)[1] if problem.code != "E202")


def _plans(experiment: Experiment) -> Iterator[Diagnostic]:
    spec = experiment.spec
    declared = {
        "claim": [claim.id for claim in spec.claims],
        "expectation": [expectation.name for expectation in spec.expect],
        "red_flag": [str(number) for number in range(1, len(spec.stop.red_flags) + 1)],
    }
    for plan, node in experiment.entries(spec.contingency, "contingency"):
        kind, name, waiting = plan.when.waits, plan.when.name.removeprefix("red_flag-"), node.get("if", plan.when.waits)
        words = kind.replace("_", " ")
        if name not in declared[kind] and waiting is not None:
            first = nearest(name, declared[kind]) or next(iter(declared[kind]), None)
            fix = f"write `{first}`" if first else f"declare the {words}, or delete the plan"
            yield unknown("E373", name, declared[kind], waiting.place, plan=plan.id, kind=words, fix=fix)


FEWEST_SEEDS = 3
MOST_METRICS_SHOWN = 8


def claims(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    scores = [*(use.card.name for use in expansion.scores), *(combined.name for combined in expansion.combined)]
    complete = experiment.spec.evaluation is None or len(scores) == len(experiment.spec.evaluation.scores)
    conditions, setups = experiment.spec.conditions, {setup.name: setup for setup in expansion.setups}
    for claim, node in experiment.entries(experiment.spec.claims, "claims"):
        yield from _seeds(claim, node, experiment)
        paths = (("contrast", "condition"), ("contrast", "against"), ("condition",))
        named = [inner for path in paths if (inner := node.get(*path)) is not None and not isinstance(inner.value, dict)]
        absent = [unknown("E302.claim", inner.value, conditions, inner.place) for inner in named if inner.value not in conditions]
        yield from absent
        if claim.contrast and claim.contrast.condition == claim.contrast.against:
            other = next((name for name in conditions if name != claim.contrast.condition), "...")
            yield problem("E303", place_of(node, "contrast.against"), condition=claim.contrast.against, other=other)
        sides = [setups[inner.value] for inner in named if inner.value in setups]
        if not absent and complete and len(sides) == len(named) and claim.elsewhere is None:
            place = place_of(node, "metric")
            yield from known_metric(claim, place, sides, scores)
            if len(sides) == 2 and sides[0].reward.name != sides[1].reward.name:
                yield from comparable(claim, place, sides)
            rests_on = logged_inputs(claim.metric, experiment.spec.metrics)
            if rests_on & POLICY_LOSSES and any(side.train.algorithm in SAMPLED for side in sides):
                yield problem("E464", place, claim=claim.id, metric=claim.metric)
    if any(claim.contrast and not claim.elsewhere for claim in experiment.spec.claims):
        yield from _null_control(experiment)


def known_metric(claim: Claim, place: Place, sides: list[Setup], scores: list[str]) -> Iterator[Diagnostic]:
    """E305."""
    metrics = [*(f"evaluation.{score}.{measure}" for score in scores for measure in EVALUATION_MEASURES), *logged_by_all(sides)]
    if claim.metric in metrics or not metrics:  # of an import that maps nothing E392 says it
        return
    is_evaluation = claim.metric.startswith("evaluation.")
    if isinstance(sides[0].train, ImportedTraining):
        why = ("there is no model to evaluate, and " if is_evaluation else "") + f"what is read of the runs' logs is {listed(metrics)}"
    elif is_evaluation:
        why = f"the evaluation scores {listed(scores)}" if scores else "this spec has no evaluation"
    elif metric(claim.metric) is not None:
        why = f"not every run of {' and '.join(f'`{side.name}`' for side in sides)} logs it"
    else:
        why = f"it could never be decided; what the runs give is {listed(metrics[:MOST_METRICS_SHOWN])}"
        if len(metrics) > MOST_METRICS_SHOWN:
            why += f" and {len(metrics) - MOST_METRICS_SHOWN} more, see site/docs/reference/metrics.md"
    example = next((name for name in metrics if name.endswith("pass_share")), metrics[0])
    yield unknown("E305", claim.metric, metrics, place, why=why, example=example)


def comparable(claim: Claim, place: Place, sides: list[Setup]) -> Iterator[Diagnostic]:
    """E308: a contrast of rewards that are numbers on different scales. `sides`: two conditions with different rewards."""
    units = {meaning.unit for name in logged_inputs(claim.metric, sides[0].derived) if (meaning := metric(name)) is not None}
    if not units & REWARD_UNITS:
        return
    is_change = claim.statistic == "change" and sides[1].condition.role == "null_control"
    if not is_change and all(side.train.algorithm != SFT for side in sides):  # without a reward E305 says it
        refused = problem("E308", place, condition=sides[0].name, against=sides[1].name, metric=claim.metric)
        notes = (Note(side.reward.node.place, f"the reward of `{side.name}`: {side.reward.name}") for side in sides)
        yield replace(refused, notes=tuple(notes))


def _seeds(claim: Claim, node: Node, experiment: Experiment) -> Iterator[Diagnostic]:
    """Enough for an interval, and no more than there are. A profile decides nothing, so its claims may stay void."""
    needed, seeds, place = claim.needs.seeds, sorted(set(experiment.spec.seeds)), place_of(node, "needs.seeds", "id")
    count = len(seeds)
    if needed < FEWEST_SEEDS:
        pilot = _listed(seeds[: FEWEST_SEEDS - 1])
        yield problem("E307", place, claim=claim.id, seeds=_counted(needed), fewest=FEWEST_SEEDS, given=pilot)
    elif needed > count and experiment.is_evidence:
        more = [*seeds, *(seed for seed in range(1, needed + count + 1) if seed not in seeds)][:needed]
        facts = {"claim": claim.id, "needed": needed, "count": count, "seeds": _counted(count), "more": _listed(sorted(more))}
        fewer = f", or needs: {{seeds: {count}}}" if count >= FEWEST_SEEDS else ""
        yield problem("E306", place, experiment.node("seeds").key, **facts, fewer=fewer, given=_listed(seeds))


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _counted(seeds: int) -> str:
    return f"{seeds} seed{'s' if seeds != 1 else ''}"


def _null_control(experiment: Experiment) -> Iterator[Diagnostic]:
    """W304: its movement is the noise floor of every contrast."""
    if all(condition.role != "null_control" for condition in experiment.spec.conditions.values()):
        # rewards of runs from outside are names: octavo does not pay them
        reward = "zero" if isinstance(experiment.spec, OutsideSpec) else "{constant: 0.0}"
        yield problem("W304", experiment.node("conditions").key, reward=reward)
