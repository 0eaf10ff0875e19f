"""`octavo compile`: cards and pipelines of the live experiments, or of those that are named."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from compiler.build import revisions
from compiler.build.files import compare, write
from compiler.build.imports import NoLog
from compiler.build.inputs import Inputs
from compiler.build.pipeline import Reference, live, named
from compiler.commands.check import show
from compiler.commands.fetch import Fetched, fetch
from compiler.compile import Compiled, compile_all, left_over, project
from compiler.problems import Rejected, problem
from stages.contracts.layout import RUNS


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Write what differs, or with --check say what would. 1 if a file differs with --check, or a run could not be fetched."""
    specs: Sequence[str] = options.specs
    pins: dict[str, str] = {}
    fetched = Fetched(inputs.lock())
    if options.update:
        fetched = fetch(specs, inputs)
        specs = fetched.specs
        inputs.relock(fetched.lock)
        pins = revisions.files(fetched.lock)
    compiled = _compiled([named(text) for text in specs] or live(inputs), inputs, fetched)
    texts = project(compiled, with_site=not specs)
    written = (compare if options.check else write)({**texts.files, **pins}, texts.once)
    if not options.check:
        write(texts.ignored, {})
    warnings = [*texts.warnings, *([] if options.update else revisions.unused(inputs.lock(), inputs.document))]
    show([*fetched.problems, *warnings], inputs)
    print("".join(f"{path}\n" for path in written.differing), end="")
    for folder in sorted(f"{RUNS}/{each.experiment.name}/{name}" for each in compiled for name in left_over(each)):
        print(f"{folder}: no longer in the spec; nothing runs it and nothing deletes it", file=sys.stderr)
    if options.check and written.differing:
        count = len(written.differing)
        show([problem("E402", count=f"{count} generated file{'s' if count > 1 else ''}")], inputs)
        return 1
    print(f"{len(written.differing)} files written, {written.unchanged} unchanged", file=sys.stderr)
    return 1 if fetched.problems else 0


def _compiled(references: Sequence[Reference], inputs: Inputs, fetched: Fetched) -> list[Compiled]:
    """All of them. A run that could not be fetched has no log: that is not said twice."""
    try:
        return compile_all(references, inputs)
    except Rejected as rejected:
        problems = [problem for problem in rejected.diagnostics if not (isinstance(problem, NoLog) and problem.log in fetched.unfetched)]
        raise Rejected([*fetched.problems, *problems], rejected.sources) from None
