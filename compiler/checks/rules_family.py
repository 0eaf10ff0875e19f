"""Rules about parents: the declared changes are the whole difference, and somebody says what they are for."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.difference import parent_differences
from compiler.build.inputs import Inputs
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from stages.contracts.diagnostic import Diagnostic


def changes_are_the_whole_difference(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Of the experiment without a profile: a profile differs from it as it does in the parent."""
    misspelt = any(found.code.startswith("E2") for found in expansion.problems)
    if of.parent is not None and not misspelt:  # values that mean nothing cannot be compared
        yield from parent_differences(of.proper or of, of.parent)


def changes_have_a_hypothesis(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Written before the data, or it is a story about them."""
    if of.parent is not None and not of.spec.hypothesis.strip():
        yield Diagnostic(
            "W308",
            f"a change of `{of.parent.stem}` without a hypothesis",
            why="what was expected of a change is worth knowing only when it was written before the data",
            fix='hypothesis: "A lower learning rate keeps ... stable."',
            place=of.node("parent").key,
            severity="warning",
        )


RULES = (changes_are_the_whole_difference, changes_have_a_hypothesis)
