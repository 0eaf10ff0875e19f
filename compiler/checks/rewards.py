"""Checks of rewards: gates that can be told apart and are reached, weights that mean shares, examples that catch bugs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from compiler.build.inputs import Inputs
from compiler.checks.data import readable
from compiler.document.node import Node
from compiler.document.validate import place_of
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.rewards import GateUse, Reward
from compiler.problems import problem, repeated, unknown
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.expressions import Mark, Status, leaves
from stages.contracts.plugin import declared

TOLERANCE = 1e-9
"""By how much weights may miss the sum of 1."""
_ONLY = {"weighted": ("weight", "needs"), "first_decides": ("on_pass", "on_fail")}


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    yield from _readers(expansion)
    used = {setup.reward.declared for setup in expansion.setups}
    complete = len(expansion.setups) == len(experiment.spec.conditions)
    for name, reward in experiment.spec.rewards.items():
        node, gates = experiment.node("rewards", name), expansion.rewards[name]
        for gate, place, first in repeated((gate.card.name, gate.node.key or gate.node.place) for gate in gates):
            yield problem("E311", place, first, reward=name, gate=gate)
        yield from _reached(gates)
        if complete and name not in used:
            yield problem("W307", node.key, reward=name)
        if reward.examples:
            yield from _empty_example(reward, node)
        else:
            yield problem("W301", node.key, reward=name, row=_some_row(experiment, inputs))
        entries = (experiment.node("rewards", name, "penalties", index) for index in range(len(reward.penalties)))
        for penalty, place, first in repeated((word, inner.key or inner.place) for entry in entries for word, inner in entry.items()):
            yield problem("E319.penalty", place, first, name=penalty)
        if len(gates) == len(reward.gates):  # all of them are known
            yield from _keys(name, reward, gates, node)
            yield from _texts(name, reward, gates)
            yield from _needed(gates)
            steps = [setup.train.max_steps for setup in expansion.setups if setup.reward.declared == name]
            yield from _phases(reward, node, min(steps, default=None) if experiment.is_evidence else None)
            yield from _own_weights(reward, gates, node)
            if reward.combine == "weighted":
                yield from _weights(reward, gates, node)
                yield from _counted(name, reward, gates, expansion)


def _reached(gates: tuple[GateUse, ...]) -> Iterator[Diagnostic]:
    """E310: a gate after one that always decides is never asked."""
    for gate, following in pairwise(gates):
        if gate.card.on_pass is not None and gate.card.on_fail is not None:
            on_fail = gate.node.get("on_fail")
            place = following.node.key or following.node.place
            yield problem("E310", place, on_fail.place if on_fail else None, gate=following.card.name, before=gate.card.name)
            return


def _readers(expansion: Expansion) -> Iterator[Diagnostic]:
    """E397 a gate that grades the verdict of another which does not stand before it, W326 one that is reached only where that passes."""
    for where, gates in [(f"`{reward}`", gates) for reward, gates in expansion.rewards.items()] + [("the evaluation", expansion.scores)]:
        kinds: dict[str, str] = {}
        for gate in gates:
            read, needs = declared(gate.card.kind, "READS"), gate.node.get("needs")
            if read and not set(read) & {*kinds.values()}:
                yield problem("E397", place_of(gate.node, "kind"), gate=gate.card.name, kind=gate.card.kind, read=read[0], where=where)
            if needs is not None and where != "the evaluation" and kinds.get(str(gate.card.needs)) in read:
                facts = {"gate": gate.card.name, "kind": gate.card.kind, "reward": where.strip("`")}
                yield problem("W326", needs.place, None, needs=gate.card.needs, **facts)
            kinds[gate.card.name] = gate.card.kind


def _empty_example(reward: Reward, node: Node) -> Iterator[Diagnostic]:
    """W302: the empty answer earns the most."""
    expected = {example.expect for example in reward.examples}
    for index, example in enumerate(reward.examples):
        if not example.completion.strip() and example.expect >= max(expected) and len(expected) > 1:
            yield problem("W302", node.value["examples"].value[index].value["completion"].place, expect=example.expect)


def _some_row(experiment: Experiment, inputs: Inputs) -> str:
    data = readable(experiment.spec.data.train.path, inputs)
    return next(iter(data.rows)) if data else "row-1"


def _keys(name: str, reward: Reward, gates: tuple[GateUse, ...], node: Node) -> Iterator[Diagnostic]:
    """E344: `weight`, `needs` and `curriculum` belong to weighted rewards, `on_pass` and `on_fail` to the others."""
    other = "first_decides" if reward.combine == "weighted" else "weighted"
    written = [inner for gate in gates for key in _ONLY[other] if (inner := gate.node.get(key)) is not None]
    curriculum = node.get("curriculum")
    if reward.curriculum and reward.combine != "weighted" and curriculum is not None:
        written.append(curriculum)
    for inner in written:
        note = (node.get("combine") or node).key
        yield problem("E344", inner.key or inner.place, note, combine=reward.combine, other=other, reward=name)


def _texts(name: str, reward: Reward, gates: tuple[GateUse, ...]) -> Iterator[Diagnostic]:
    """E230."""
    for gate in gates:
        written = gate.node.get("judges")
        if written is not None and reward.answer is None:
            yield problem("E230.judges", written.key or written.place, gate=gate.card.name, reward=name)


def _weights(reward: Reward, gates: tuple[GateUse, ...], node: Node) -> Iterator[Diagnostic]:
    """E345 a gate without weight, E346 a sum other than 1, E347 a phase that does not weigh every gate."""
    without = [gate for gate in gates if gate.card.weight is None]
    for gate in without:
        yield problem("E345", gate.node.key or gate.node.place, gate=gate.card.name)
    if not without:
        weights = {gate.card.name: gate.card.weight or 0.0 for gate in gates}
        yield from _sum(weights, node.value["gates"].key, "the gates' weights")
    names = [gate.card.name for gate in gates]
    for index, phase in enumerate(reward.curriculum):
        written = node.value["curriculum"].value[index].value["weights"]
        wrong = [unknown("E347", name, names, written.value[name].key) for name in phase.weights if name not in names]
        missing = [name for name in names if name not in phase.weights]
        if not wrong and missing:
            quoted = [f"`{name}`" for name in missing]
            wrong = [problem("E347.missing", written.key, missing=quoted, known=names, gate=missing[0])]
        yield from wrong or _sum(phase.weights, written.key, f"the weights of the phase from {phase.begins:.4g}")


def _sum(weights: dict[str, float], place: Place | None, which: str) -> Iterator[Diagnostic]:
    total = math.fsum(weights.values())
    if not math.isclose(total, 1.0, abs_tol=TOLERANCE, rel_tol=0):
        scaled = ", ".join(f"{name}: {weight / total:.4g}" for name, weight in weights.items()) if total else ""
        fix = f"scale them: {scaled}" if scaled else "give at least one gate a weight"
        terms = " + ".join(f"{weight:g}" for weight in weights.values())
        yield problem("E346", place, weights=which, total=f"{total:.6g}", sum=terms, fix=fix)


def _needed(gates: tuple[GateUse, ...]) -> Iterator[Diagnostic]:
    """E349."""
    before: list[str] = []
    for gate in gates:
        needs, name = gate.card.needs, gate.card.name
        if needs is not None and needs not in before:
            is_later = needs != name and any(other.card.name == needs for other in gates)
            candidates = [] if needs in {other.card.name for other in gates} else before
            yield unknown("E349.later" if is_later else "E349", needs, candidates, place_of(gate.node, "needs"), gate=name)
        before.append(name)


def _phases(reward: Reward, node: Node, steps: int | None) -> Iterator[Diagnostic]:
    """E348 phases that do not rise, E352 ones that hold at no step. `steps`: of the shortest run; None in a profile."""
    before = -1.0
    for index, phase in enumerate(reward.curriculum):
        place, start = _from(node, index), 100 * phase.begins
        following = reward.curriculum[index + 1].begins if index + 1 < len(reward.curriculum) else 1.0
        if phase.begins <= before:
            yield problem("E348", place, start=start, before=100 * before)
        elif phase.begins >= 1:
            yield problem("E352", place, start=start)
        elif steps is not None and phase.begins > (steps - 1) / steps:
            yield problem("E352.late", place, start=start, steps=steps, last=f"{100 * (steps - 1) / steps:.3g}")
        elif (
            steps is not None
            and phase.begins < following < 1
            and not any(phase.begins <= step / steps < following for step in range(steps))
        ):
            yield problem("E352.over", place, _from(node, index + 1), start=start, steps=steps, following=100 * following)
        before = max(before, phase.begins)


def _own_weights(reward: Reward, gates: tuple[GateUse, ...], node: Node) -> Iterator[Diagnostic]:
    """E353: the weights at the gates hold up to the first phase, and this one begins with the training."""
    first = reward.curriculum[0] if reward.curriculum else None
    if first is None or first.begins > 0:
        return
    other = [
        (gate, weight) for gate in gates if (weight := gate.node.get("weight")) and gate.card.weight != first.weights.get(gate.card.name)
    ]
    if other:
        gate, weight = other[0]
        facts = {"gate": gate.card.name, "weight": f"{100 * (gate.card.weight or 0):g}"}
        yield problem("E353", _from(node, 0), weight.place, **facts)


def _from(node: Node, phase: int) -> Place:
    place: Place = node.value["curriculum"].value[phase].value["from"].place
    return place


def _counted(name: str, reward: Reward, gates: tuple[GateUse, ...], expansion: Expansion) -> Iterator[Diagnostic]:
    """W309: verifying costs time, so a gate whose answer changes nothing deserves a second look."""
    penalties = expansion.penalties.get(name)
    if penalties is None:
        return
    asked = {leaf.gate for penalty in penalties for leaf in leaves(penalty.when) if isinstance(leaf, Mark | Status)}
    asked |= {gate.card.needs for gate in gates if gate.card.needs}
    for gate in gates:
        weights = [gate.card.weight, *(phase.weights.get(gate.card.name) for phase in reward.curriculum)]
        if all(weight == 0 for weight in weights) and gate.card.name not in asked:
            yield problem("W309", gate.node.key or gate.node.place, gate=gate.card.name)
