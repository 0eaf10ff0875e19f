"""Claims that are held against a condition of another experiment: it exists, has the metric, and measures the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compiler.build.inputs import Inputs
from compiler.build.others import Other, has_same_reward, read_other
from compiler.build.pipeline import SPECS, everything
from compiler.checks.evaluation import comparable, known_metric
from compiler.document.node import Node
from compiler.document.validate import place_of
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment, profiles
from compiler.problems import listed, problem, unknown
from stages.contracts.claim import Claim
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.evaluation import EvaluateCard, evaluation_differences
from stages.contracts.names import SLUG


def read_others(experiment: Experiment, inputs: Inputs) -> tuple[dict[str, Other], list[Diagnostic]]:
    """(the other experiments of claims by stem, problems: E365 of names that cannot be meant). A profile is compared with the other
    experiment's profile of the same name. Raises Rejected with the problems of another file."""
    others: dict[str, Other] = {}
    problems: list[Diagnostic] = []
    for claim, node in _elsewhere(experiment):
        named = node.get("contrast", "against", "experiment")
        if claim.elsewhere is None or named is None:
            continue
        stem = claim.elsewhere.experiment
        wrong = _wrong_name(experiment, stem, claim, named, inputs)
        if wrong is None:
            others[stem] = others.get(stem) or read_other(stem, experiment.profile, inputs)
        else:
            problems.append(wrong)
    return others, problems


def check(experiment: Experiment, expansion: Expansion, evaluate: EvaluateCard | None, others: Mapping[str, Other]) -> Iterator[Diagnostic]:
    """E302 no such condition, E305 a metric that one of the two lacks, E306 too few seeds, E308 other rewards, E365 another evaluation."""
    setups = {setup.name: setup for setup in expansion.setups}
    for claim, node in _elsewhere(experiment):
        elsewhere = claim.elsewhere
        if elsewhere is None or elsewhere.experiment not in others:
            continue
        other, place = others[elsewhere.experiment], place_of(node, "metric")
        own, its = setups[claim.sides[0]], other.setup(elsewhere.condition)
        if its is None:
            known = [setup.name for setup in other.expansion.setups]
            yield unknown(
                "E302.elsewhere", elsewhere.condition, known, place_of(node, "contrast.against.condition"), name=other.experiment.name
            )
            continue
        seeds, name = len(other.experiment.spec.seeds), other.experiment.name
        if seeds < claim.needs.seeds and experiment.is_evidence:
            facts = {"claim": claim.id, "name": name, "needed": claim.needs.seeds, "count": seeds}
            yield problem("E365.seeds", place_of(node, "needs.seeds", "id"), other.experiment.node("seeds").key, **facts)
        shared = [score for score in evaluate.names if score in other.evaluate.names] if evaluate and other.evaluate else []
        yield from known_metric(claim, place, [own, its], shared)
        if not has_same_reward(own, its):
            yield from comparable(claim, place, [own, its])
        score = claim.metric.removeprefix("evaluation.").rpartition(".")[0]
        if evaluate and other.evaluate and score in shared and (differing := evaluation_differences(evaluate, other.evaluate, score)):
            yield problem("E365.evaluation", place, score=score, name=name, differing=listed(differing))


def _elsewhere(experiment: Experiment) -> Iterator[tuple[Claim, Node]]:
    return ((claim, node) for claim, node in experiment.entries(experiment.spec.claims, "claims") if claim.elsewhere)


def _wrong_name(experiment: Experiment, stem: str, claim: Claim, named: Node, inputs: Inputs) -> Diagnostic | None:
    plain, at, _ = stem.partition("@")
    if at:
        return problem("E365.named", named.place, name=stem, plain=plain)
    if stem == experiment.stem:
        return problem("E365.self", named.place, condition=claim.elsewhere.condition if claim.elsewhere else "")
    if not (SPECS / f"{stem}.yaml").is_file():
        return unknown("E365", stem, [reference.stem for reference in everything()], named.place)
    if circle := _circle(experiment.stem, stem, inputs):
        return problem("E365.circle", named.place, names=" -> ".join(circle))
    document = inputs.document(SPECS / f"{stem}.yaml")
    known = profiles(document, stem, inputs.document)
    if experiment.profile is not None and experiment.profile not in known:
        return unknown("E365.profile", experiment.profile, known, named.place, name=stem, all=listed(known))
    return None


def _circle(first: str, stem: str, inputs: Inputs) -> list[str]:
    """The experiments whose claims lead from one back to it; empty where they do not."""
    ways, seen = [[first, stem]], {stem}
    while ways:
        way = ways.pop()
        if way[-1] == first:
            return way
        path = SPECS / f"{way[-1]}.yaml"
        for name in _named(inputs.document(path).root) if path.is_file() else ():
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def _named(root: Node) -> Iterator[str]:
    """Other experiments that the claims of a spec name, as far as it can be read."""
    claims = root.get("claims")
    for claim in claims.value if claims is not None and isinstance(claims.value, list) else ():
        named = claim.get("contrast", "against", "experiment")
        if named is not None and isinstance(named.value, str) and SLUG.fullmatch(named.value):
            yield named.value
