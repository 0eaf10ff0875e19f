"""Rules about rewards: gates that can be told apart and are reached, examples that catch bugs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from compiler.build.inputs import Inputs
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.problems import Fault
from stages.contracts.diagnostic import Diagnostic, Note, Place
from stages.contracts.plugin import reads


def gates_have_own_names(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Within a reward."""
    for reward, uses in expansion.rewards.items():
        first: dict[str, Place] = {}
        for use in uses:
            place = use.node.key or use.node.place
            if use.card.name in first:
                yield Diagnostic(
                    "E311",
                    f"two gates of `{reward}` are named `{use.card.name}`",
                    why="statuses and scores are logged by the gate's name; two of one name could not be told apart",
                    fix=f"write `{use.card.name}-2`",
                    place=place,
                    notes=(Note(first[use.card.name], "the first one"),),
                )
            first.setdefault(use.card.name, place)


def gates_are_reached(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """A gate after one that always decides is never asked."""
    for uses in expansion.rewards.values():
        for use, following in pairwise(uses):
            if use.card.on_pass is not None and use.card.on_fail is not None:
                on_fail = use.node.get("on_fail")
                yield Diagnostic(
                    "E310",
                    f"no completion reaches the gate `{following.card.name}`",
                    why="the first gate that decides ends the way, and the one before decides on pass and on fail",
                    fix=f"remove `on_pass` or `on_fail` of `{use.card.name}`, or the gates after it",
                    place=following.node.key or following.node.place,
                    notes=(Note(on_fail.place if on_fail else None, f"`{use.card.name}` always decides"),),
                )
                break


def readers_stand_after_what_they_read(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """A gate that grades the verdict of another, in rewards and among the scores of the evaluation."""
    for where, uses in [(f"`{reward}`", uses) for reward, uses in expansion.rewards.items()] + [("the evaluation", expansion.scores)]:
        for place, use in enumerate(uses):
            kinds = reads(use.card.kind)
            if kinds and not any(before.card.kind in kinds for before in uses[:place]):
                kind = use.node.get("kind")
                yield Diagnostic(
                    "E397",
                    f"`{use.card.name}` reads the verdict of a gate of kind `{kinds[0]}`, and none stands before it in {where}",
                    why=f"`{use.card.kind}` checks nothing itself: it grades what that gate found",
                    fix=f"put `- verify: {{kind: {kinds[0]}}}` before it",
                    place=kind.place if kind else use.node.place,
                )


def readers_see_failures(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W326: a gate that grades the failures of another, and is reached only where that one passes."""
    for reward, uses in expansion.rewards.items():
        kinds = {use.card.name: use.card.kind for use in uses}
        for use in uses:
            needs = use.node.get("needs")
            if needs is not None and kinds.get(str(use.card.needs)) in reads(use.card.kind):
                yield Diagnostic(
                    "W326",
                    f"`{use.card.name}` grades what `{use.card.needs}` found, and is reached only where that passes",
                    why=f"`{use.card.kind}` tells failures apart; with `needs` every failure counts as 0, and none is graded (`{reward}`)",
                    fix="delete `needs`",
                    place=needs.place,
                    severity="warning",
                )


def rewards_have_examples(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W301 none at all, W302 the empty answer earns the most, W307 used by nobody."""
    used = {setup.reward.declared for setup in expansion.setups}
    for name, reward in of.spec.rewards.items():
        node = of.node("rewards", name)
        if name not in used and len(expansion.setups) == len(of.spec.conditions):
            yield Diagnostic(
                "W307",
                f"no condition uses the reward `{name}`",
                why="it is neither trained on nor tested before training",
                fix="delete it, or name it in a condition",
                place=node.key,
                severity="warning",
            )
        if not reward.examples:
            yield Diagnostic(
                "W301",
                f"the reward `{name}` has no examples",
                why="reward bugs rule what a policy learns; completions with a known reward find them for free",
                fix=f'examples: [{{completion: "...", row: {_some_row(of, inputs)}, expect: 1.0}}]',
                place=node.key,
                severity="warning",
            )
            continue
        best = max(example.expect for example in reward.examples)
        for index, example in enumerate(reward.examples):
            if not example.completion.strip() and example.expect >= best and len({e.expect for e in reward.examples}) > 1:
                yield Diagnostic(
                    "W302",
                    f"an empty completion earns the highest reward of the examples, {example.expect:g}",
                    why="a policy finds such an optimum and then writes nothing",
                    fix="add a gate such as `length: {kind: format, min_chars: 1, on_fail: 0.0}`",
                    place=of.node("rewards", name, "examples", index, "completion").place,
                    severity="warning",
                )


def _some_row(of: Experiment, inputs: Inputs) -> str:
    try:
        return next(iter(inputs.data(of.spec.data.train.path).rows))
    except Fault:
        return "row-1"


RULES = (gates_have_own_names, gates_are_reached, readers_stand_after_what_they_read, readers_see_failures, rewards_have_examples)
