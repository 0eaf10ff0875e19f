"""Rules about evaluation and health: a yardstick that exists, gates that can pass and can fail."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_any
from compiler.document.node import Node
from compiler.document.validate import validated
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.health_profiles import PROFILES
from compiler.language.spec_judged import Bound
from compiler.problems import listed, nearest
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.history import metric
from stages.contracts.plugin import DETECTORS, kinds, load


def evaluation_has_data(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """A shared evaluation needs held-out prompts."""
    if of.spec.evaluation is not None and of.spec.data.evaluation is None:
        yield Diagnostic(
            "E324",
            "an evaluation without prompts",
            why="every run and the untrained model are evaluated on the same held-out prompts",
            fix="data: {evaluation: {path: data/heldout.jsonl}}",
            place=of.node("evaluation").key,
        )


def health_can_be_decided(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """A known profile; each gate's rule can pass and can fail."""
    profile = of.spec.health.profile
    if profile is not None and profile not in PROFILES:
        meant = nearest(profile, PROFILES)
        yield Diagnostic(
            "E328",
            f"no health profile `{profile}`" + (f", did you mean `{meant}`?" if meant else ""),
            why=f"a profile names detectors with their thresholds; known: {', '.join(PROFILES)}",
            fix=f"write `{meant or next(iter(PROFILES))}`",
            place=of.node("health", "profile").place,
        )
    for kind in of.spec.health.detectors:
        yield from _settings(kind, of.node("health", "detectors", kind))
    words = {"not persistent": "nonfinite", "complete": "steps"}
    for name, rule in of.spec.health.gates.items():
        node = of.node("health", "gates", name)
        if isinstance(rule, Bound):
            yield from _bound(name, rule, node, logged_by_any(expansion.setups))
        elif words[rule] != name:
            yield Diagnostic(
                "E322",
                f"the health gate `{name}` cannot be `{rule}`",
                why="known: `nonfinite: not persistent`, `steps: complete`, and a metric with {below: x} or {above: x}",
                fix=f"write `{words[rule]}: {rule}`",
                place=node.place,
            )


def _settings(kind: str, node: Node) -> Iterator[Diagnostic]:
    known = kinds(DETECTORS)
    if kind in known:
        yield from validated(load(DETECTORS, kind).Settings, node, f"health.detectors.{kind}")[1]
        return
    meant = nearest(kind, known)
    yield Diagnostic(
        "E218",
        f"no detector `{kind}`" + (f", did you mean `{meant}`?" if meant else ""),
        why=f"a detector is a file in stages/analyse/detectors/; known: {', '.join(known)}",
        fix=f"write `{meant or known[0]}`",
        place=node.key or node.place,
    )


def _bound(name: str, rule: Bound, node: Node, logged: list[str]) -> Iterator[Diagnostic]:
    meaning = metric(name)
    if not logged:  # no condition could be built, and its own errors say why
        return
    if meaning is None or name not in logged:
        meant = nearest(name, logged)
        yield Diagnostic(
            "E322",
            f"no run logs the metric `{name}`" + (f", did you mean `{meant}`?" if meant else ""),
            why=f"{listed(meaning.algorithms)} log it, and this spec trains with another algorithm"
            if meaning is not None and meaning.algorithms
            else "a health gate on a metric that does not exist can never be decided",
            fix=f"write `{meant}`" if meant else f"known metrics: {listed(logged)}",
            place=node.key or node.place,
        )
        return
    word, bound = ("below", rule.below) if rule.below is not None else ("above", rule.above)
    assert bound is not None
    written = node.get(word) or node
    if meaning.share and not (0 < bound <= 1 if word == "below" else 0 <= bound < 1):
        never = bound <= 0 if word == "below" else bound >= 1
        yield Diagnostic(
            "E315",
            f"`{name}` is a share, so `{word}: {bound:g}` {'never' if never else 'always'} holds",
            why="a health gate that decides nothing hides that nothing was checked"
            if not never
            else "a gate that no run can pass excludes every run",
            fix=f"{word}: 0.5",
            place=written.place,
        )


RULES = (evaluation_has_data, health_can_be_decided)
