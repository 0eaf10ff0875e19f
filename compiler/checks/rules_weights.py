"""Rules about weighted rewards, their curriculum and penalties: weights that mean shares, phases and penalties that can happen."""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.build.inputs import Inputs
from compiler.document.node import Node
from compiler.language.conditions import asked_gates, outcomes
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.gates import GateUse
from compiler.language.spec_rewards import Reward
from compiler.problems import listed, nearest
from stages.contracts.diagnostic import Diagnostic, Note, Place

TOLERANCE = 1e-9
_ONLY = {"weighted": ("weight", "needs"), "first_decides": ("on_pass", "on_fail")}


def _declared(of: Experiment, expansion: Expansion) -> Iterator[tuple[str, Reward, tuple[GateUse, ...]]]:
    """Rewards whose gates are all known."""
    for name, reward in of.spec.rewards.items():
        if len(expansion.rewards[name]) == len(reward.gates):
            yield name, reward, expansion.rewards[name]


def keys_fit_the_way_to_combine(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E344: `weight`, `needs` and `curriculum` belong to weighted rewards, `on_pass` and `on_fail` to the others."""
    for name, reward, uses in _declared(of, expansion):
        other = "first_decides" if reward.combine == "weighted" else "weighted"
        written = [node for use in uses for key in _ONLY[other] if (node := use.node.get(key)) is not None]
        if reward.curriculum and reward.combine != "weighted":
            written.append(of.node("rewards", name, "curriculum"))
        for node in written:
            yield Diagnostic(
                "E344",
                f"this key means nothing in a reward that is combined by `{reward.combine}`",
                why="first_decides: the first gate that decides ends the way. weighted: every gate counts with its weight",
                fix=f"delete it, or write `combine: {other}` beside `gates`",
                place=node.key or node.place,
                notes=(Note(_combine(of, name), f"the reward `{name}`"),),
            )


def _combine(of: Experiment, name: str) -> Place | None:
    node = of.root.get("rewards", name, "combine") or of.node("rewards", name)
    return node.key


def weights_are_shares(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E345 a gate without weight, E346 a sum other than 1, E347 a phase that does not weigh every gate."""
    for name, reward, uses in _declared(of, expansion):
        if reward.combine != "weighted":
            continue
        without = [use for use in uses if use.card.weight is None]
        for use in without:
            yield Diagnostic(
                "E345",
                f"the gate `{use.card.name}` has no weight",
                why="in a weighted reward each gate's score counts with its weight; 0 logs the gate and counts nothing",
                fix="weight: 0.0",
                place=use.node.key or use.node.place,
            )
        if not without:
            weights = {use.card.name: use.card.weight or 0.0 for use in uses}
            yield from _sum(weights, of.node("rewards", name, "gates").key, "the gates' weights")
        for index, phase in enumerate(reward.curriculum):
            node = of.node("rewards", name, "curriculum", index, "weights")
            names = [use.card.name for use in uses]
            wrong = list(_phase_gates(phase.weights, names, node))
            yield from wrong or _sum(phase.weights, node.key, f"the weights of the phase from {phase.begins:.4g}")


def _sum(weights: dict[str, float], place: Place | None, what: str) -> Iterator[Diagnostic]:
    total = math.fsum(weights.values())
    if math.isclose(total, 1.0, abs_tol=TOLERANCE, rel_tol=0):
        return
    rest = {name: 1.0 - math.fsum(other for key, other in weights.items() if key != name) for name in weights}
    # the last gate that can take up the difference: authors write the main one last
    fits = [name for name, value in rest.items() if 0 <= value <= 1]
    scaled = ", ".join(f"{name}: {weight / total:.4g}" for name, weight in weights.items()) if total else ""
    yield Diagnostic(
        "E346",
        f"{what} sum to {total:.6g}, not 1: {' + '.join(f'{weight:g}' for weight in weights.values())}",
        why="weights are shares of the reward; with another sum rewards of phases and experiments lie on different scales",
        fix=f"set `{fits[-1]}` to {round(rest[fits[-1]], 12):g}"
        if fits
        else f"scale them: {scaled}"
        if scaled
        else "give at least one gate a weight",
        place=place,
    )


def _phase_gates(weights: dict[str, float], names: list[str], node: Node) -> Iterator[Diagnostic]:
    why = f"a phase replaces all weights, so it has one for each gate: {listed(names)}"
    for name in weights:
        if name not in names:
            meant = nearest(name, names)
            entry = node.get(name)
            yield Diagnostic(
                "E347",
                f"no gate `{name}` to weigh" + (f", did you mean `{meant}`?" if meant else ""),
                why=why,
                fix=f"write `{meant}`" if meant else "delete it",
                place=entry.key if entry else node.place,
            )
    missing = [name for name in names if name not in weights]
    if missing and set(weights) <= set(names):
        yield Diagnostic(
            "E347",
            f"the phase has no weight for {listed(f'`{name}`' for name in missing)}",
            why=why,
            fix=f"add `{missing[0]}: 0.0`",
            place=node.key,
        )


def needed_gates_come_earlier(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E349."""
    for _, _, uses in _declared(of, expansion):
        before: list[str] = []
        for use in uses:
            needs = use.card.needs
            if needs is not None and needs not in before:
                written = use.node.get("needs")
                later = any(other.card.name == needs for other in uses)
                meant = None if later else nearest(needs, before)
                yield Diagnostic(
                    "E349",
                    f"`{use.card.name}` needs `{needs}`, which is no earlier gate" + (f", did you mean `{meant}`?" if meant else ""),
                    why="gates are asked in order; one that needs a later gate, or itself, could never be asked",
                    fix=f"write `needs: {meant}`"
                    if meant
                    else f"move `{needs}` before it"
                    if later and needs != use.card.name
                    else "delete `needs`",
                    place=written.place if written else use.node.place,
                )
            before.append(use.card.name)


def phases_begin_in_training(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E348 phases that do not rise, E352 dead ones. A profile may be too short for its phases; it is no evidence."""
    shortest: dict[str, int] = {}
    for setup in expansion.setups:
        if setup.reward.declared is not None:
            name = setup.reward.declared
            shortest[name] = min(setup.train.max_steps, shortest.get(name, setup.train.max_steps))
    for name, reward, _ in _declared(of, expansion):
        begun = -1.0
        for index, phase in enumerate(reward.curriculum):
            place = of.node("rewards", name, "curriculum", index, "from").place
            steps = shortest.get(name)
            if phase.begins <= begun:
                yield Diagnostic(
                    "E348",
                    f"a phase from {phase.begins * 100:g}% after one from {begun * 100:g}%",
                    why="phases follow each other; of two that begin together only one could count",
                    fix="put the phases in order, each with its own beginning",
                    place=place,
                )
            elif phase.begins >= 1:
                yield _dead(place, f"the phase begins at {phase.begins * 100:g}% of training, which is its end")
            elif steps is not None and phase.begins > (steps - 1) / steps and of.profile is None:
                last = (steps - 1) / steps
                yield _dead(
                    place, f"the phase begins at {phase.begins * 100:g}%, and the last of {steps} steps begins at {last * 100:.3g}%"
                )
            begun = max(begun, phase.begins)


def _dead(place: Place, what: str) -> Diagnostic:
    return Diagnostic(
        "E352",
        what,
        why="no completion would ever be scored with its weights: a dead rule looks like a tested one",
        fix="let it begin earlier, such as `from: 50%`, or delete it",
        place=place,
    )


def penalties_can_apply(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E319 two of one name, E353 one that never or always applies."""
    for name, cards in expansion.penalties.items():
        first: dict[str, Place | None] = {}
        for index, card in enumerate(cards or ()):
            node = of.node("rewards", name, "penalties", index, card.name)
            if card.name in first:
                yield Diagnostic(
                    "E319",
                    f"the penalty `{card.name}` is given twice",
                    why="penalties are counted by their name",
                    fix=f"write `{card.name}-2`",
                    place=node.key,
                    notes=(Note(first[card.name], "the first one"),),
                )
            first.setdefault(card.name, node.key)
            found = outcomes(card.when)
            if len(found) == 1:
                always = True in found
                yield Diagnostic(
                    "E353",
                    f"`{card.name}` {'always' if always else 'never'} applies",
                    why="whatever the gates say, its condition is the same"
                    + (": every completion would get one reward" if always else ": a dead rule looks like a tested one"),
                    fix="correct the condition, or delete the penalty",
                    place=of.node("rewards", name, "penalties", index, card.name, "when").place,
                )


def combined_scores_tell_apart(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E353: a score that every completion passes, or none, measures nothing."""
    written = of.root.get("evaluation", "scores") if expansion.combined else None
    places = {name: inner.get("when") for node in (written.value if written else ()) for name, inner in node.items()}
    for combined in expansion.combined:
        found = outcomes(combined.when)
        when = places.get(combined.name)
        if len(found) == 1:
            yield Diagnostic(
                "E353",
                f"every completion {'passes' if True in found else 'fails'} the score `{combined.name}`",
                why="whatever the other scores say, its condition is the same",
                fix="correct the condition, or delete the score",
                place=when.place if when else None,
            )


def gates_count(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W309: verifying costs time, so a gate whose answer changes nothing deserves a second look."""
    for name, reward, uses in _declared(of, expansion):
        penalties = expansion.penalties.get(name)
        if reward.combine != "weighted" or penalties is None:
            continue
        asked = {gate for card in penalties for gate in asked_gates(card.when)} | {use.card.needs for use in uses}
        for use in uses:
            weights = [use.card.weight, *(phase.weights.get(use.card.name) for phase in reward.curriculum)]
            if all(weight == 0 for weight in weights) and use.card.name not in asked:
                yield Diagnostic(
                    "W309",
                    f"the gate `{use.card.name}` never counts",
                    why="its weight is always 0, no gate needs it and no penalty asks for it: it costs its time and is only logged",
                    fix="give it a weight, or make it a score of the evaluation",
                    place=use.node.key or use.node.place,
                    severity="warning",
                )


RULES = (
    keys_fit_the_way_to_combine,
    weights_are_shares,
    needed_gates_come_earlier,
    phases_begin_in_training,
    penalties_can_apply,
    combined_scores_tell_apart,
    gates_count,
)
