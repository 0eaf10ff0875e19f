"""`octavo check --rewards`: run the examples of every reward through its gates, as preflight does before training."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.compile import Compiled
from compiler.inputs import Inputs
from compiler.nodes import Node
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.reward_card import ExampleCard


def check(one: Compiled, inputs: Inputs) -> Iterator[Diagnostic]:
    """E325 at each example whose reward is not the expected one. Gates may start their sandbox."""
    from stages.train.rewards.compose import check_examples

    of = one.experiment
    checked: set[tuple[str, str]] = set()
    for setup in one.expansion.setups:
        name = setup.reward.declared
        if name is None or (name, setup.data.path) in checked or not of.spec.rewards[name].examples:
            continue
        checked.add((name, setup.data.path))
        rows = inputs.data(setup.data.path).rows
        examples = tuple(
            ExampleCard(completion=example.completion, row=rows[example.row], expect=example.expect, truncated=example.truncated)
            for example in of.spec.rewards[name].examples
        )
        for index, outcome in enumerate(check_examples(setup.reward.card(examples))):
            if not outcome.ok:
                expect: Node = of.node("rewards", name, "examples", index, "expect")
                got = "the gates do not know" if outcome.got is None else f"the reward is {outcome.got:g}"
                yield Diagnostic(
                    "E325",
                    f"{got}, not {outcome.expect:g}: {outcome.why}",
                    why="a reward that does not do what its author expects does not train",
                    fix="correct the gates, or the expectation",
                    place=expect.place,
                )
