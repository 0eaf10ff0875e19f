"""`octavo check`: what is wrong with specs and all their profiles. Writes nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from compiler.build import revisions
from compiler.build.inputs import Inputs
from compiler.build.pipeline import LIVE, Reference, every_spec, live, named
from compiler.compile import compile_all
from compiler.language.experiment import profiles
from compiler.problems import Rejected, errors, in_order
from compiler.render import colour, render
from stages.contracts.diagnostic import Diagnostic

NOT_TRIED = 5
"""Exit code."""


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """1 if there is an error; else NOT_TRIED if the examples of a reward were not tried, because this machine may not call an address."""
    inputs.only_checks = True
    references = with_profiles([named(text) for text in options.specs] or every_spec(), inputs)
    if not options.specs and LIVE.exists():
        live(inputs)
    compiled = compile_all(references, inputs)
    problems = [warning for each in compiled for warning in each.warnings]
    problems += revisions.unused(inputs.lock(), inputs.document)
    rewards, forbidden = "", 0
    if options.rewards:
        from compiler.commands import examples

        tally = examples.Tally()
        problems += [problem for each in compiled for problem in examples.check(each, inputs, tally)]
        forbidden = tally.forbidden
        rewards = f"; examples of rewards that score what they should: {tally.scored}"
        rewards += f"; rewards that were not tried, because of their addresses: {forbidden}" if forbidden else ""
    show(problems, inputs)
    if errors(problems):
        return 1
    runs = sum(len(each.expansion.runs) for each in compiled)
    print(f"{', '.join(each.experiment.name for each in compiled)}: {runs} runs, no errors{rewards}", file=sys.stderr)
    return NOT_TRIED if forbidden else 0


def with_profiles(references: Sequence[Reference], inputs: Inputs) -> list[Reference]:
    """Each experiment, followed by its profiles. A broken spec has none: compiling it says what is wrong."""
    every: list[Reference] = []
    for reference in references:
        every.append(reference)
        if reference.profile is None:
            with suppress(Rejected):
                names = profiles(inputs.document(reference.path), reference.stem, inputs.document)
                every += [Reference(reference.stem, name, reference.path) for name in names]
    return every


def show(problems: Iterable[Diagnostic], inputs: Inputs, sources: dict[str, list[str]] | None = None) -> None:
    """Problems on standard error, in colour on a terminal. `sources`: lines of files that are no YAML."""
    lines = {**{file: document.lines for file, document in inputs.documents.items()}, **(sources or {})}
    print(render(in_order(problems), lines, colour=colour()), file=sys.stderr, end="")
